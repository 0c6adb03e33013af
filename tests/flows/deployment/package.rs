//! What a release publishes: the systemd units and the Debian package.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use crate::support::files::{project, read};
use crate::support::process::BINARY;

const UNITS: [&str; 3] = ["standalone", "gateway", "worker"];
const PROGRAM: &str = "/bin/true";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes sure that the system's programs are there, as the scripts do.
static REQUIREMENTS: LazyLock<()> = LazyLock::new(|| {
    let script = ". scripts/lib/requirements
        need systemd-analyze systemd command -v systemd-analyze
        need dpkg-shlibdeps dpkg-dev command -v dpkg-shlibdeps";
    run(Command::new("bash").args(["-ec", script]).current_dir(project("")));
});

/// The output of a program that succeeds.
fn run(command: &mut Command) -> String {
    let output = output(command);
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text
}

fn output(command: &mut Command) -> Output {
    let started = command.stdin(Stdio::null()).output();
    started.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn unit(name: &str) -> String {
    read(project(&format!("deploy/systemd/longshore-{name}.service")))
}

/// The units, verified with the program of this build and a user that exists.
#[test]
fn units_are_valid() {
    LazyLock::force(&REQUIREMENTS);
    let folder = tempfile::tempdir().unwrap();
    for name in UNITS {
        let text = unit(name).replace("/usr/bin/longshore", BINARY);
        assert!(text.contains(&format!("ExecStart={BINARY} {name}\n")), "{text}");
        let file = folder.path().join(format!("longshore-{name}.service"));
        std::fs::write(&file, text).unwrap();
        let found = run(Command::new("systemd-analyze").arg("verify").arg(&file));
        assert_eq!(found, "", "{name}");
    }
}

/// systemd counts in tenths: 20 is 2.0.
#[test]
fn units_are_hardened() {
    LazyLock::force(&REQUIREMENTS);
    for name in UNITS {
        let file = project(&format!("deploy/systemd/longshore-{name}.service"));
        let mut command = Command::new("systemd-analyze");
        run(command.args(["security", "--offline=true", "--threshold=20"]).arg(file));
    }
}

/// The processes of a release and their units stay the same but for the command.
#[test]
fn units_differ_in_their_command() {
    let rest = |name: &str| {
        let lines = unit(name);
        let lines = lines
            .lines()
            .filter(|line| !line.starts_with("ExecStart=") && !line.starts_with("Description="));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(rest("standalone"), rest("gateway"));
    assert_eq!(rest("standalone"), rest("worker"));
}

/// Packs a small program, because the one under test would take minutes; its manual is real.
fn pack(folder: &Path) {
    LazyLock::force(&REQUIREMENTS);
    let mut command = Command::new(project("scripts/lib/package"));
    command.args([PROGRAM, VERSION, architecture()]).arg(folder).arg("1");
    run(command.env("SOURCE_DATE_EPOCH", "1700000000").env("PACK_WITH", BINARY));
}

fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

fn deb(folder: &Path) -> String {
    let name = format!("longshore_{VERSION}_{}.deb", architecture());
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn the_debian_package_is_complete_and_reproducible() {
    let folder = tempfile::tempdir().unwrap();
    let sums = [(); 2].map(|()| {
        pack(folder.path());
        let script = "sha256sum *.deb *.tar.gz && rm *.tar.gz";
        run(Command::new("sh").args(["-ec", script]).current_dir(&folder))
    });
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[0].lines().count(), 2);

    let deb = deb(folder.path());
    let fields = run(Command::new("dpkg-deb").args(["--field", &deb]));
    assert!(fields.contains(&format!("Version: {VERSION}\n")), "{fields}");
    // The program needs the C library; which version, its symbols say.
    assert!(fields.contains("Depends: libc6 (>= "), "{fields}");

    let tree = folder.path().join("tree");
    run(Command::new("dpkg-deb").args(["--raw-extract", &deb]).arg(&tree));
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    assert!(bytes(&tree.join("usr/bin/longshore")) == bytes(Path::new(PROGRAM)));
    let manual = tree.join("usr/share/man/man1");
    for page in ["longshore.1.gz", "longshore-export-run.1.gz", "longshore-users-find.1.gz"] {
        assert!(manual.join(page).is_file(), "{page}");
    }
    assert!(!manual.join("longshore-reference.1.gz").exists(), "a hidden command");
    for file in [
        "bash-completion/completions/longshore",
        "zsh/vendor-completions/_longshore",
        "fish/vendor_completions.d/longshore.fish",
    ] {
        let script = read(tree.join("usr/share").join(file));
        assert!(script.contains("control-group"), "{file}");
    }
    let conffiles = read(tree.join("DEBIAN/conffiles"));
    assert_eq!(conffiles, "/etc/longshore/longshore.toml\n");
    for name in UNITS {
        let file = format!("usr/lib/systemd/system/longshore-{name}.service");
        assert_eq!(read(tree.join(file)), unit(name));
    }
    for script in ["postinst", "prerm", "postrm"] {
        run(Command::new("sh").arg("-n").arg(tree.join("DEBIAN").join(script)));
    }
    // What the units, sysusers.d and tmpfiles.d refer to is one and the same.
    let listed = run(Command::new("dpkg-deb").args(["--contents", &deb]));
    let closed = |line: &str| line.starts_with("-rw-------") && line.contains("root/root");
    assert!(listed.lines().any(|line| closed(line) && line.ends_with("/longshore.toml")));
    let config = unit("gateway");
    assert!(config.contains("LONGSHORE_CONFIG=/etc/longshore/longshore.toml\n"));
    let tmpfiles = read(tree.join("usr/lib/tmpfiles.d/longshore.conf"));
    assert!(tmpfiles.contains("z /etc/longshore/longshore.toml 0640 root longshore -"));
    assert!(tmpfiles.contains("d /var/lib/longshore 0700 longshore longshore -"));
    assert!(read(tree.join("usr/lib/sysusers.d/longshore.conf")).starts_with("u longshore "));
}

/// The settings file of the package, as `standalone` and, with what it shows, a fleet read it.
#[test]
fn the_settings_of_the_package_are_accepted() {
    let text = read(project("deploy/debian/longshore.toml"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("longshore.toml");
    let data = folder.path().join("data");
    let local = text.replace("/var/lib/longshore", data.to_str().unwrap());
    std::fs::write(&file, &local).unwrap();
    let migrate = || {
        let mut command = Command::new(BINARY);
        command.env_clear().arg("--config").arg(&file).arg("migrate").current_dir(&folder);
        output(&mut command)
    };
    assert!(migrate().status.success());
    assert!(data.join("store.db").exists());
    // Every line that is commented out is a setting.
    let settings: Vec<&str> = local
        .lines()
        .filter_map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ")))
        .collect();
    let names: BTreeSet<&str> =
        settings.iter().map(|line| line.split(" = ").next().unwrap()).collect();
    let needed = ["database.url", "log.url", "objects.url", "public_url", "secret_key"];
    assert_eq!(names, BTreeSet::from(needed));
    let wrong = format!("databas.url = 'x'\n{local}");
    std::fs::write(&file, wrong).unwrap();
    assert_eq!(migrate().status.code(), Some(2), "an unknown setting is noticed");
}

/// Before anything is built.
#[test]
fn a_release_needs_its_version_and_its_section_of_the_changelog() {
    let folder = tempfile::tempdir().unwrap();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]);
        run(command.args(arguments).current_dir(&folder))
    };
    git(&["init", "--quiet"]);
    std::fs::create_dir_all(folder.path().join("scripts/lib")).unwrap();
    for file in ["scripts/release", "scripts/lib/requirements", "Cargo.toml"] {
        std::fs::copy(project(file), folder.path().join(file)).unwrap();
    }
    std::fs::write(folder.path().join("CHANGELOG.md"), "## [Unreleased]\n\n- a\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "a"]);
    let release = |version: &str| {
        let mut command = Command::new("scripts/release");
        let output = output(command.arg(version).current_dir(&folder));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, text) = release(VERSION);
    assert_eq!(status, Some(1));
    assert!(text.contains("CHANGELOG.md") && text.contains(VERSION), "{text}");
    let (status, text) = release("99.0.0");
    assert_eq!(status, Some(1));
    assert!(text.contains("Cargo.toml") && text.contains("99.0.0"), "{text}");
    assert_eq!(release("next").0, Some(2));
    assert!(!folder.path().join("target").exists());
}
