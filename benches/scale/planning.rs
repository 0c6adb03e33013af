//! What an export costs before its first part: the look at the users, and the rows of its parts.

use std::time::Instant;

use longshore::app::App;
use longshore::exports::plan;

use crate::figures::Figures;
use crate::jobs::ExportRequester;
use crate::workers::Workers;
use tokio_util::sync::CancellationToken;

/// Users in a file, so that there are more and more parts.
const PER_FILE: [u32; 3] = [5_000, 500, 50];

pub async fn measure(workers: &mut Workers, runs: usize) -> Figures {
    // No worker may claim the planned work.
    workers.have(0).await;
    let mut figures = Figures::new(format!("planning of {} users", workers.users));
    for run in 1..=runs {
        println!("run {run} of {runs}");
        for per_file in PER_FILE {
            let mut config = workers.fleet.config();
            config.exports.users_per_file = per_file;
            let app = App::open(config).await.expect("the app opens");
            let asker = ExportRequester::new(&app, &workers.pool).await;
            let job = asker.queue().await;
            let claim = asker.take_plan(&job).await;
            let began = Instant::now();
            plan::plan(&app, &claim, &CancellationToken::new()).await.expect("it is planned");
            let seconds = began.elapsed().as_secs_f64();
            let parts = asker.progress(&job).await.parts.expect("it is planned");
            let began = Instant::now();
            asker.cancel(&job).await;
            let cancelled = began.elapsed().as_secs_f64();
            figures.add(
                &format!("files of {per_file}"),
                vec![
                    ("seconds", seconds),
                    ("parts", parts as f64),
                    ("s/M users", seconds * 1e6 / workers.users as f64),
                    ("cancelled s", cancelled),
                ],
            );
            app.store.close().await;
            app.log.close().await;
        }
    }
    figures
}
