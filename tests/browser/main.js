// All tests, on one installation: scripts/browser-test.

import "./accessibility.js";
import "./below_a_path.js";
import "./every_page.js";
import "./exports.js";
import "./keyboard.js";
import "./keys.js";
import "./openid_connect.js";
import "./operations.js";
import "./people.js";
import "./progress.js";
import "./rights.js";
import "./segments.js";
import "./sends.js";
import "./signing_in.js";
import "./users.js";
import "./without_javascript.js";
// It adds users, whom the tests before count.
import "./catalogs.js";
