//! The worker is killed between the change of an export's state and the end of a notification.

use super::{ProxyMode, Scene};
use crate::support::fleet::Backend;
use crate::support::killed;

const WORKER: &str = "worker-1";

/// The process ends at `point`, and another continues: each receiver is notified, of one event.
async fn killed_at(event: &str, point: &str) {
    let points = format!("{point}=kill");
    let failing = Some((WORKER, points.as_str()));
    let mut scene = match event {
        "failed" => Scene::failing(Backend::Fleet(1), failing).await,
        "late" => Scene::late(Backend::Fleet(1), failing).await,
        _ => Scene::new(Backend::Fleet(1), (1_000, "6h"), ProxyMode::Open, failing).await,
    };
    let accepted = scene.api.export_all().await;
    scene.fleet.wait_until_exited(WORKER).await;
    scene.fleet.launch(WORKER).await;
    match event {
        "failed" => scene.is_notified_of_the_failure(&accepted.prefix).await,
        "late" => {
            scene.delivered(&accepted.prefix, 2).await;
            for path in ["/hook", "/own"] {
                scene.notification(path, "export.late");
            }
        }
        _ => {
            scene.delivered(&accepted.prefix, 2).await;
            for path in ["/done", "/own"] {
                scene.notification(path, "export.done");
            }
        }
    }
    scene.close().await;
}

killed! {
    after_the_failure: "failed", "export::given_up";
    after_the_export_was_marked_late: "late", "late::marked";
    after_the_end: "done", "finish::done";
    before_a_notification_is_settled: "failed", "delivery::answered";
    before_a_later_notification_is_settled: "failed", "delivery::answered@4";
}
