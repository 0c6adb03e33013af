"""Opens /docs of a gateway in Chromium: page.py BASE CHROMIUM [FOLDER for screenshots]

The page must begin with a key and a first request, every operation must be shown with its samples,
the search must find, nothing may be loaded from another origin or be refused by the page's policy,
and a phone's screen must be wide enough.
"""

import json
import re
import sys
import urllib.request

from playwright.sync_api import sync_playwright

base, chromium, *folder = sys.argv[1:]
# The proxy of a machine is for other addresses.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
document = json.load(opener.open(f"{base}/openapi.json"))
operations = [
    (path, method, operation)
    for path, methods in document["paths"].items()
    for method, operation in methods.items()
]
assert len(operations) > 30, len(operations)


def open_page(browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.requested, page.problems = [], []
    page.on("request", lambda request: page.requested.append(request.url))
    page.on("console", lambda line: page.problems.append(line.text) if line.type == "error" else 0)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(f"{base}/docs")
    page.get_by_role("heading", name=document["info"]["title"], exact=True).wait_for()
    return page


def check_origin(page):
    others = [url for url in page.requested if not url.startswith((f"{base}/", "data:"))]
    assert not others, others
    assert not page.problems, page.problems


def check_section(page, end, operation):
    # A section is rendered once it is on the screen.
    found = page.evaluate(
        """end => {
            const all = [...document.querySelectorAll("[id]")];
            const section = all.find(one => one.id.endsWith(end));
            section?.scrollIntoView();
            return section?.id;
        }""",
        end,
    )
    assert found, f"{end} is not on the page"
    section = page.locator(f'[id="{found}"]')
    section.get_by_text(operation["summary"]).first.wait_for()
    section.get_by_text("Responses", exact=False).first.wait_for()
    for sample in operation.get("x-codeSamples", [])[:1]:
        first = sample["source"].splitlines()[0].rstrip(" \\")
        section.get_by_text(re.compile(re.escape(first))).first.wait_for()


def check_operations(page):
    for path, method, operation in operations:
        check_section(page, f"/{method.upper()}{path}", operation)
    for name, methods in document["webhooks"].items():
        for method, operation in methods.items():
            check_section(page, f"/webhook/{method.upper()}/{name.lower()}", operation)


def check_beginning(page):
    for heading in ("Authentication", "First request", "Every request"):
        page.get_by_role("heading", name=heading, exact=True).first.wait_for()
    page.get_by_text("longshore key create").first.wait_for()


def check_search(page):
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").wait_for(state="attached")
    page.keyboard.type("invalid_phone")
    found = page.get_by_role("dialog").get_by_text("/sms/invalid_phone_numbers/remove").first
    found.wait_for()
    found.click()
    page.wait_for_function("location.href.includes('invalid_phone_numbers')")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    backgrounds = {}
    for width in (1440, 390):
        for scheme in ("light", "dark"):
            page = open_page(browser, width, scheme)
            script = "getComputedStyle(document.body).getPropertyValue('--scalar-background-1')"
            backgrounds[scheme] = page.evaluate(script).strip()
            if folder:
                page.wait_for_timeout(1000)
                page.screenshot(path=f"{folder[0]}/docs-{width}-{scheme}.png")
            if width == 1440 and scheme == "light":
                check_beginning(page)
                check_operations(page)
                check_search(page)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} pixels on a screen of {width}"
            check_origin(page)
            page.close()
    assert backgrounds["light"] != backgrounds["dark"], backgrounds
    browser.close()
