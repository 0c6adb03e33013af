//! The bound: each stage alone on all cores, on the same users, their times added. What an
//! export takes beyond it is waiting, planning and what its parts cost each other.

use std::sync::Mutex;
use std::time::Instant;

use jiff::Timestamp;
use longshore::exports::Plan;
use longshore::exports::archive::{Packer, Shape};
use longshore::exports::project::Projector;
use longshore::proof::fields::FieldSet;
use longshore::users::Position;
use longshore::users::moment::TransactionSnapshot;
use longshore::users::scan::{self, UserRange, UserRow};
use uuid::Uuid;

use crate::FieldChoice;
use crate::longshore::Installation;
use crate::report::Measured;

const PER_PART: u32 = 5_000;

/// A user as read, to be handed on.
struct Stored {
    service_id: Uuid,
    doc: String,
    activity: Option<Vec<u8>>,
}

pub async fn measure(installation: &Installation, choice: &FieldChoice) -> Measured {
    let names: Vec<String> = choice.fields.iter().map(|name| (*name).to_owned()).collect();
    let fields = FieldSet::parse(&names).expect("known fields");
    let plan = plan();
    let stretches = stretches(installation).await;

    let began = Instant::now();
    read(installation, &plan, &fields, &stretches, |_| {}).await;
    let reading = began.elapsed();

    let parts = Mutex::new(Vec::new());
    read(installation, &plan, &fields, &stretches, |part| {
        parts.lock().expect("no panic").push(part)
    })
    .await;
    let parts = parts.into_inner().expect("no panic");

    let began = Instant::now();
    let lines = on_all_cores(&parts, |part| project(part, &fields, &plan));
    let projecting = began.elapsed();
    drop(parts);

    let began = Instant::now();
    let files = on_all_cores(&lines, |lines| {
        let mut packer = Packer::new(Shape::Zip, "part.json".into(), Timestamp::UNIX_EPOCH);
        packer.append(|out| out.extend_from_slice(lines)).expect("memory");
        packer.finish().expect("memory").bytes.len() as u64
    });
    let compressing = began.elapsed();
    println!(
        "  bound, {}: read {:.2} s, project {:.2} s, compress {:.2} s",
        choice.name,
        reading.as_secs_f64(),
        projecting.as_secs_f64(),
        compressing.as_secs_f64()
    );
    Measured {
        name: format!("bound, {}", choice.name),
        seconds: (reading + projecting + compressing).as_secs_f64(),
        raw_bytes: lines.iter().map(|lines| lines.len() as u64).sum(),
        bytes: files.iter().sum(),
        resident: None,
    }
}

fn plan() -> Plan {
    let today = kit::clock::utc_date(Timestamp::now());
    Plan {
        slices: (0..100).collect(),
        members: None,
        segment: None,
        planned_at: None,
        moment: None,
        youngest: Uuid::max(),
        first_day: today.checked_sub(jiff::Span::new().days(89)).expect("a day"),
        last_day: today,
        upload_date: today,
        seed: Uuid::nil(),
        currency: "USD".into(),
        exchange_rates: Default::default(),
    }
}

/// From where to where each part reads.
async fn stretches(installation: &Installation) -> Vec<(Position, Position)> {
    let mut tx = installation.store.snapshot().await.expect("the store answers");
    let slices: Vec<i16> = (0..100).collect();
    let cuts = scan::cut(&mut tx, 1, &slices, PER_PART, usize::MAX).await;
    let cuts = cuts.expect("the store answers");
    tx.commit().await.expect("the store answers");
    let starts = std::iter::once(Position::START).chain(cuts.ends.iter().copied());
    starts.zip(cuts.ends.iter().copied()).collect()
}

/// Reads all parts, as many at once as a worker does.
async fn read(
    installation: &Installation,
    plan: &Plan,
    fields: &FieldSet,
    stretches: &[(Position, Position)],
    done: impl Fn(Vec<Stored>) + Sync,
) {
    use futures::{StreamExt as _, stream};
    let at_once = 2 * cores();
    stream::iter(stretches)
        .for_each_concurrent(at_once, |(after, up_to)| {
            let done = &done;
            async move {
                let stretch = UserRange {
                    workspace: 1,
                    slices: &plan.slices,
                    after: *after,
                    up_to: *up_to,
                    youngest: plan.youngest,
                    activity: fields.needs_activity(),
                };
                let mut users = Vec::new();
                let mut tx = installation.store.snapshot().await.expect("the store answers");
                let moment = TransactionSnapshot::endless();
                let read = scan::read(&mut tx, &stretch, &moment, |user| {
                    users.push(Stored {
                        service_id: user.service_id,
                        doc: user.doc.to_owned(),
                        activity: user.activity.map(<[u8]>::to_vec),
                    });
                    Ok::<(), std::convert::Infallible>(())
                });
                let Ok(()) = read.await.expect("the store answers");
                tx.commit().await.expect("the store answers");
                done(users);
            }
        })
        .await;
}

fn project(part: &[Stored], fields: &FieldSet, plan: &Plan) -> Vec<u8> {
    let projector = Projector::new(fields, plan);
    let mut out = Vec::new();
    for user in part {
        let row = UserRow {
            service_id: user.service_id,
            doc: &user.doc,
            activity: user.activity.as_deref(),
        };
        projector.line(&row, &mut out).expect("no document is broken");
    }
    out
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` for each of `items` on as many threads as there are cores; what comes out is in
/// any order.
fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                while let Some(item) =
                    items.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let result = work(item);
                    done.lock().expect("no panic").push(result);
                }
            });
        }
    });
    done.into_inner().expect("no panic")
}
