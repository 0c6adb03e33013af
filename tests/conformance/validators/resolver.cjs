// An example of SCIM has a $ref that is data, and leads to a gateway that does not run.
const { Resolver } = require("@stoplight/spectral-ref-resolver");

module.exports = new Resolver({ resolvers: { http: { resolve: async () => "{}" } } });
