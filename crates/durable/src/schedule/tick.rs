//! What becomes of a tick that is due.

use std::time::Duration;

use durable_core::{Payload, Timestamp};
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Cron;
use crate::persistence::model::{OverlapPolicy, ScheduleRecord, StartRun};
use crate::persistence::{Bug, planted};

/// A tick found later than this was missed.
pub(crate) const LATE_MAX: Duration = Duration::from_secs(60);

/// What to do with a tick that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Take it and start the run, after what stands in its way was told to stop.
    Start {
        /// What happens to the last run first.
        stop: Option<Stop>,
        /// The tick after it.
        next: Option<Timestamp>,
    },
    /// Take it and start nothing.
    Skip {
        /// The tick after it.
        next: Option<Timestamp>,
    },
    /// Leave it until the last run has ended.
    Hold,
}

/// Where the run stands that the schedule started last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastRun {
    /// It has not ended.
    Running,
    /// It ended then.
    Ended(Timestamp),
}

/// How the last run is told to make way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is asked, and may clean up.
    Cancel,
    /// It ends.
    Terminate,
}

/// Decides about a tick that is due at `now`. No last run: there was none, or it is not kept any more.
pub(crate) fn decide(
    schedule: &ScheduleRecord,
    cron: &Cron,
    nominal: Timestamp,
    last: Option<LastRun>,
    now: Timestamp,
) -> Decision {
    let running = last == Some(LastRun::Running);
    let buffers = schedule.overlap == OverlapPolicy::BufferOne;
    if buffers && running {
        return Decision::Hold;
    }
    // A tick that was held is as old as the end of the run that was in its way; ticks that came meanwhile are not kept.
    let since = match last {
        Some(LastRun::Ended(ended)) if buffers => ended.max(nominal),
        _ => nominal,
    };
    let allowed = LATE_MAX.max(catchup(schedule));
    if let Ok(horizon) = now.checked_sub(allowed)
        && since <= horizon
    {
        let next = cron.next_after(horizon);
        return Decision::Skip { next };
    }
    let mut next = cron.next_after(since);
    if planted(Bug::TickPassedOver) {
        next = next.and_then(|next| cron.next_after(next));
    }
    match schedule.overlap {
        OverlapPolicy::Skip if running => Decision::Skip { next },
        OverlapPolicy::Replace if running => Decision::Start {
            stop: Some(Stop::Cancel),
            next,
        },
        OverlapPolicy::Terminate if running => Decision::Start {
            stop: Some(Stop::Terminate),
            next,
        },
        _ => Decision::Start { stop: None, next },
    }
}

fn catchup(schedule: &ScheduleRecord) -> Duration {
    Duration::from_millis(u64::try_from(schedule.catchup_window_ms).unwrap_or(0))
}

/// The run of a tick: derived, so that starting it twice is starting it once; ordered by time like every run's id.
pub(crate) fn run_id_of(schedule_id: &str, nominal: Timestamp) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(nominal.as_microsecond().to_le_bytes());
    hash.update(schedule_id);
    let mut tail = [0_u8; 10];
    tail.copy_from_slice(&hash.finalize()[..10]);
    let millis = u64::try_from(nominal.as_millisecond()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
}

/// The start of a run by a schedule; its memo says which schedule, and for when.
pub(crate) fn start_of(schedule: &ScheduleRecord, run_id: Uuid, nominal: Timestamp) -> StartRun {
    let memo = json!({ "schedule_id": schedule.id, "scheduled_at": nominal });
    let mut start = StartRun::new(
        run_id,
        schedule.workflow_type.clone(),
        schedule.input.clone(),
    );
    start.version.clone_from(&schedule.version);
    start.memo = Payload::from_value(&memo).expect("an id and an instant are JSON");
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn schedule(catchup: Duration) -> ScheduleRecord {
        let noon = at("2026-01-01T12:00:00Z");
        ScheduleRecord {
            id: "hourly".into(),
            workflow_type: "report".into(),
            version: String::new(),
            input: Payload::ABSENT,
            cron: "0 * * * *".into(),
            time_zone: "UTC".into(),
            overlap: OverlapPolicy::Allow,
            catchup_window_ms: i64::try_from(catchup.as_millis()).unwrap(),
            paused: false,
            next_fire_at: Some(noon),
            last_fire_at: None,
            last_run: None,
            created_at: noon,
            updated_at: noon,
        }
    }

    fn decided(catchup: Duration, now: &str) -> Decision {
        decided_after(&schedule(catchup), None, now)
    }

    fn decided_after(schedule: &ScheduleRecord, last: Option<LastRun>, now: &str) -> Decision {
        let cron = Cron::parse(&schedule.cron, &schedule.time_zone).unwrap();
        let nominal = schedule.next_fire_at.unwrap();
        decide(schedule, &cron, nominal, last, at(now))
    }

    fn start(next: &str) -> Decision {
        let next = Some(at(next));
        Decision::Start { stop: None, next }
    }

    fn skip(next: &str) -> Decision {
        let next = Some(at(next));
        Decision::Skip { next }
    }

    #[test]
    fn a_tick_a_little_late_is_taken_and_a_missed_one_is_not() {
        let one = "2026-01-01T13:00:00Z";
        assert_eq!(decided(Duration::ZERO, "2026-01-01T12:00:00Z"), start(one));
        assert_eq!(decided(Duration::ZERO, "2026-01-01T12:00:59Z"), start(one));
        assert_eq!(decided(Duration::ZERO, "2026-01-01T12:01:00Z"), skip(one));
        // All missed ones at once.
        let four = "2026-01-01T16:00:00Z";
        assert_eq!(decided(Duration::ZERO, "2026-01-01T15:30:00Z"), skip(four));
        // The last of them is not missed yet.
        let three = "2026-01-01T15:00:00Z";
        assert_eq!(decided(Duration::ZERO, "2026-01-01T15:00:30Z"), skip(three));
    }

    #[test]
    fn ticks_within_the_catch_up_window_are_made_up_for() {
        let one = "2026-01-01T13:00:00Z";
        assert_eq!(decided(HOUR * 4, "2026-01-01T15:30:00Z"), start(one));
        // The window begins at 13:30.
        let two = "2026-01-01T14:00:00Z";
        assert_eq!(decided(HOUR * 2, "2026-01-01T15:30:00Z"), skip(two));
    }

    #[test]
    fn the_overlap_policy_counts_only_while_the_last_run_goes_on() {
        let (now, one) = ("2026-01-01T12:00:01Z", "2026-01-01T13:00:00Z");
        let ended = LastRun::Ended(at("2026-01-01T11:10:00Z"));
        for overlap in OverlapPolicy::ALL {
            let mut schedule = schedule(Duration::ZERO);
            schedule.overlap = overlap;
            assert_eq!(decided_after(&schedule, None, now), start(one));
            assert_eq!(decided_after(&schedule, Some(ended), now), start(one));
            let stopping = |stop| Decision::Start {
                stop: Some(stop),
                next: Some(at(one)),
            };
            let expected = match overlap {
                OverlapPolicy::Allow => start(one),
                OverlapPolicy::Skip => skip(one),
                OverlapPolicy::Replace => stopping(Stop::Cancel),
                OverlapPolicy::Terminate => stopping(Stop::Terminate),
                OverlapPolicy::BufferOne => Decision::Hold,
            };
            let running = Some(LastRun::Running);
            assert_eq!(decided_after(&schedule, running, now), expected);
        }
    }

    #[test]
    fn a_held_tick_is_one_run_however_many_ticks_came_meanwhile() {
        let mut schedule = schedule(Duration::ZERO);
        schedule.overlap = OverlapPolicy::BufferOne;
        let held = Some(LastRun::Running);
        assert_eq!(
            decided_after(&schedule, held, "2026-01-01T17:30:00Z"),
            Decision::Hold
        );
        let ended = Some(LastRun::Ended(at("2026-01-01T17:30:00Z")));
        let six = "2026-01-01T18:00:00Z";
        assert_eq!(
            decided_after(&schedule, ended, "2026-01-01T17:30:01Z"),
            start(six)
        );
        // Found long after the end: missed like any other.
        assert_eq!(
            decided_after(&schedule, ended, "2026-01-01T17:40:00Z"),
            skip(six)
        );
    }

    #[test]
    fn the_run_of_a_tick_never_changes_between_releases() {
        let noon = at("2026-01-01T12:00:00Z");
        let run_id = run_id_of("hourly", noon);
        assert_eq!(run_id, run_id_of("hourly", noon));
        assert_ne!(run_id, run_id_of("daily", noon));
        assert!(
            run_id < run_id_of("hourly", at("2026-01-01T13:00:00Z")),
            "ordered by time"
        );
        assert_eq!(run_id.to_string(), "019b796d-d600-78c2-b7b4-c0f312086523");
    }
}
