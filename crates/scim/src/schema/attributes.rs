//! The tables of attributes: RFC 7643, and the permissions of the dashboard.

use super::{Attribute, DEPARTMENT, ENTERPRISE, GROUP, Kind, MAX_MEMBERS, ResourceSchema, USER};

/// The users of the dashboard.
pub static USERS: ResourceSchema = ResourceSchema {
    name: "User",
    urn: USER,
    endpoint: "/Users",
    description: "A user of the dashboard",
    attributes: USER_ATTRIBUTES,
    extension: Some(&EXTENSION),
    key: "userName",
};

/// Groups of users, which have the permissions of the permission set of the same name.
pub static GROUPS: ResourceSchema = ResourceSchema {
    name: "Group",
    urn: GROUP,
    endpoint: "/Groups",
    description: "A group of users",
    attributes: GROUP_ATTRIBUTES,
    extension: None,
    key: "displayName",
};

const NAME: &[Attribute] = &[
    Attribute::label("formatted", "The full name."),
    Attribute::label("givenName", "The given name."),
    Attribute::label("familyName", "The family name."),
    Attribute::label("middleName", "The middle name."),
    Attribute::label("honorificPrefix", "The title before the name."),
    Attribute::label("honorificSuffix", "The suffix after the name."),
];

const TYPE: Attribute = Attribute::label("type", "The kind of value, such as `work`.");
const DISPLAY: Attribute = Attribute::label("display", "A label for people.");
const PRIMARY: Attribute =
    Attribute::new("primary", Kind::Boolean, "Whether this is the preferred value.");

const EMAIL: &[Attribute] =
    &[Attribute::email("value", "The email address."), TYPE, PRIMARY, DISPLAY];
const PHONE_NUMBER: &[Attribute] =
    &[Attribute::label("value", "The phone number."), TYPE, PRIMARY, DISPLAY];
const IM: &[Attribute] =
    &[Attribute::label("value", "The messaging address."), TYPE, PRIMARY, DISPLAY];
const PHOTO: &[Attribute] =
    &[Attribute::url("value", "The URL of the photo."), TYPE, PRIMARY, DISPLAY];
const ROLE: &[Attribute] = &[Attribute::label("value", "The role."), TYPE, PRIMARY, DISPLAY];
const ENTITLEMENT: &[Attribute] =
    &[Attribute::label("value", "The entitlement."), TYPE, PRIMARY, DISPLAY];

const ADDRESS: &[Attribute] = &[
    Attribute {
        max_length: super::MAX_URL_LENGTH,
        ..Attribute::label("formatted", "The full address.")
    },
    Attribute::label("streetAddress", "The street address."),
    Attribute::label("locality", "The city."),
    Attribute::label("region", "The state or region."),
    Attribute::label("postalCode", "The postal code."),
    Attribute::label("country", "The country."),
    TYPE,
    PRIMARY,
];

const USER_GROUP: &[Attribute] = &[
    Attribute::text("value", "The group's `id`.").read_only(),
    Attribute::new("$ref", Kind::Reference(&["Group"]), "The group's URL.").read_only(),
    Attribute::label("display", "The group's name.").read_only(),
    Attribute::label("type", "Always `direct`.").read_only(),
];

const MANAGER: &[Attribute] = &[
    Attribute::text("value", "The manager's `id`."),
    Attribute::user_reference("The manager's URL."),
    Attribute::label("displayName", "The manager's name."),
];

const EXTENSION: Attribute = Attribute::complex(
    ENTERPRISE,
    &[
        Attribute::label("employeeNumber", "The user's employee number."),
        Attribute::label("costCenter", "The user's cost center."),
        Attribute::label("organization", "The user's organization."),
        Attribute::label("division", "The user's division."),
        Attribute::label(DEPARTMENT, "The same value as the user's own `department`."),
        Attribute::complex("manager", MANAGER, "The user's manager."),
    ],
    "The enterprise extension of users.",
);

const TEAM: &[Attribute] = &[
    Attribute::text("teamId", "The team's identifier; this or the name is required."),
    Attribute::text("teamName", "The name of the team."),
    Attribute::text("teamPermissions", "The user's permissions in the team.").multi_valued(),
];

/// The sub-attributes whose values are the workspaces of the installation.
pub const APP_GROUP_ID: &str = "appGroupId";
pub const APP_GROUP_NAME: &str = "appGroupName";

const APP_GROUP: &[Attribute] = &[
    Attribute::text(APP_GROUP_ID, "The app group's identifier; this or the name is required."),
    Attribute::text(APP_GROUP_NAME, "The name of the app group."),
    Attribute::text("appGroupPermissions", "The user's permissions in the app group.")
        .multi_valued(),
    // Nested deeper than a schema can describe (RFC 7643 section 2.3.8 allows no complex
    // sub-attributes), and deeper than clients that read schemas accept.
    Attribute::complex("team", TEAM, "The user's teams in the app group.")
        .multi_valued()
        .unpublished(),
];

const PERMISSIONS: &[Attribute] = &[
    Attribute::text("companyPermissions", "The user's permissions in the whole company.")
        .multi_valued(),
    Attribute::complex("appGroup", APP_GROUP, "The user's permissions in app groups.")
        .multi_valued(),
];

const USER_ATTRIBUTES: &[Attribute] = &[
    Attribute::text("userName", "The email address that the user signs in with.")
        .required()
        .unique_in_any_case(),
    Attribute::complex("name", NAME, "The parts of the user's name."),
    Attribute::label("displayName", "The name to show."),
    Attribute::label("nickName", "The casual name."),
    Attribute::url("profileUrl", "The URL of the user's profile."),
    Attribute::label("title", "The job title."),
    Attribute::label("userType", "The user's relation to the company."),
    Attribute::label("preferredLanguage", "The preferred language, such as `en-US`."),
    Attribute::label("locale", "The locale, such as `en-US`."),
    Attribute::label("timezone", "The time zone, such as `Europe/Berlin`."),
    Attribute::new(
        "active",
        Kind::Boolean,
        "Whether the user may sign in; true by default for a new user.",
    ),
    Attribute::complex("emails", EMAIL, "Email addresses.").multi_valued(),
    Attribute::complex("phoneNumbers", PHONE_NUMBER, "Phone numbers.").multi_valued(),
    Attribute::complex("ims", IM, "Instant messaging addresses.").multi_valued(),
    Attribute::complex("photos", PHOTO, "URLs of photos.").multi_valued(),
    Attribute::complex("addresses", ADDRESS, "Postal addresses.").multi_valued(),
    Attribute::complex("groups", USER_GROUP, "The groups that the user is a member of.")
        .multi_valued()
        .read_only(),
    Attribute::complex("entitlements", ENTITLEMENT, "Entitlements, kept as they are.")
        .multi_valued(),
    Attribute::complex("roles", ROLE, "Roles, kept as they are.").multi_valued(),
    Attribute::label(DEPARTMENT, "The user's department."),
    Attribute::text("lastSignInAt", "Time of the user's last sign-in, in UTC.").read_only(),
    Attribute::complex(
        "permissions",
        PERMISSIONS,
        "The user's permissions, including those of the user's groups.",
    ),
];

const MEMBER: &[Attribute] = &[
    Attribute::text("value", "The user's `id`.").immutable(),
    Attribute::user_reference("The user's URL.").immutable(),
    Attribute { canonical: &["User"], ..Attribute::label("type", "Always `User`.").immutable() },
];

const GROUP_ATTRIBUTES: &[Attribute] = &[
    Attribute::label("displayName", "The name of the group, and of its permission set.")
        .required()
        .unique_in_any_case(),
    Attribute {
        max_values: MAX_MEMBERS,
        ..Attribute::complex("members", MEMBER, "The users in the group.").multi_valued()
    },
];

const META: &[Attribute] = &[
    Attribute::text("resourceType", "").read_only(),
    Attribute::new("created", Kind::DateTime, "").read_only(),
    Attribute::new("lastModified", Kind::DateTime, "").read_only(),
    Attribute::new("location", Kind::Reference(&["uri"]), "").read_only(),
    Attribute::text("version", "").read_only(),
];

/// The attributes that every resource has and that no schema lists (RFC 7643 section 3.1).
pub const COMMON: &[Attribute] = &[
    Attribute::text("schemas", "").multi_valued().read_only(),
    Attribute::text("id", "").read_only(),
    Attribute::text("externalId", ""),
    Attribute::complex("meta", META, "").read_only(),
];
