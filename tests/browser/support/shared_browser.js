// One Chromium for all tests of a script, which is started once.

import { after } from "node:test";

import { Browser } from "./browser.js";

export const browser = await Browser.start();
after(() => browser.close());
