//! The bucket is down, lies, fails, has no room, or refuses its credentials.

use serde_json::json;

use super::{BROKEN_WAYS, SLOW, Scene, endure};
use crate::support::http_proxy::{ChooseFault, NO_FAULT, ProxyFault};
use crate::support::proxy::ProxyMode;
use crate::support::storage::TestStorage;

/// What stores answer, in the order of its use.
struct Answers {
    /// What may pass.
    failing: &'static [(&'static str, ChooseFault)],
    /// The credentials are refused, and how that is reported.
    refusing: ChooseFault,
    told: &'static str,
}

macro_rules! answer {
    ($status:literal, $code:literal) => {{
        let play: ChooseFault = |_, _| {
            let body = concat!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>",
                $code,
                "</Code><Message>as told</Message></Error>"
            );
            Some(ProxyFault::Respond($status, body))
        };
        play
    }};
}

const S3: Answers = Answers {
    failing: &[
        ("InternalError", answer!(500, "InternalError")),
        ("SlowDown", answer!(503, "SlowDown")),
        // As MinIO and Ceph say it; AWS has always room.
        ("XMinioStorageFull", answer!(507, "XMinioStorageFull")),
        ("QuotaExceeded", answer!(403, "QuotaExceeded")),
    ],
    refusing: answer!(403, "InvalidAccessKeyId"),
    told: "does not know the access_key_id",
};

const AZURE: Answers = Answers {
    failing: &[
        ("InternalError", answer!(500, "InternalError")),
        ("ServerBusy", answer!(503, "ServerBusy")),
    ],
    refusing: answer!(403, "AuthenticationFailed"),
    told: "access denied",
};

async fn outages(storage: TestStorage, ways: &[ProxyMode], answers: Answers) {
    let scene = Scene::new(storage, 48).await;
    let accepted = scene.half_done("/waits").await;
    for way in ways {
        scene.bucket.set(*way);
        endure(&scene.fleet, &format!("the bucket: {way:?}")).await;
        scene.bucket.set(SLOW);
        scene.more_files(&accepted, 1).await;
    }
    for (code, answer) in answers.failing {
        scene.http_proxy.inject(*answer);
        endure(&scene.fleet, &format!("the bucket: {code}")).await;
        scene.http_proxy.inject(NO_FAULT);
        scene.more_files(&accepted, 1).await;
    }
    scene.ends_whole(&accepted, "/waits").await;

    let accepted = scene.half_done("/fails").await;
    scene.http_proxy.inject(answers.refusing);
    let error = scene.api.failed(&accepted.prefix).await;
    assert!(error.contains(answers.told), "{error}");
    scene.is_called_back("/fails", &json!({ "success": false, "error": error })).await;
    let doctor = scene.fleet.command(&["doctor"]).await;
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(!doctor.status.success() && said.contains(answers.told), "{said}");
    // Nothing can be removed yet, either.
    endure(&scene.fleet, "the bucket: refuses").await;
    scene.http_proxy.inject(NO_FAULT);
    scene.bucket.set(ProxyMode::Open);

    let mended = scene.api.export_all().await;
    scene.api.done(&mended.prefix).await;
    scene.leaves_only(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outages_of_s3() {
    outages(TestStorage::s3().await, &BROKEN_WAYS, S3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "scripts/test --all"]
async fn outages_of_azure() {
    outages(TestStorage::azure().await, &[ProxyMode::Stuck, ProxyMode::Garbled], AZURE).await;
}
