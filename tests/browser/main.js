// All tests, on one installation: scripts/browser-test.

import "./accessibility.js";
import "./below_a_path.js";
import "./exports.js";
import "./keyboard.js";
import "./people.js";
import "./rights.js";
import "./signing_in.js";
import "./without_javascript.js";
