//! What becomes due, runs out or is to be delivered: shard by shard, in transactions that are
//! bounded in rows and bytes.
//!
//! What another transaction has locked is passed over and comes with a later call; the lists go on
//! behind it, so that it holds up nothing but itself. A batch that fails is made smaller until the
//! one at fault is alone, which is then set aside for a while.

use std::collections::BTreeSet;

use durable_core::Timestamp;
use uuid::Uuid;

use super::SqlStore;
use crate::persistence::model::{FireDue, Fired, ReapLeases, ReapedTask, RelayMessages, Relayed};
use crate::persistence::sql::intents::due::{FireShard, FiredShard, FirstOf, NextDue, Shares};
use crate::persistence::sql::intents::leases::{ReapLeases as ReapShard, ReapedShard};
use crate::persistence::sql::intents::relay::{RelayShard, RelayedShard};
use crate::persistence::sql::tx::{Concern, Database, Intent};
use crate::persistence::{AsideKind, StoreError, StoreResult, WorkflowEventStore};

/// Most transactions for one shard in one call, where locked runs are in the way or not all fits: a
/// call has an end.
const PASSES_MAX: usize = 64;
/// By what a batch that fails is made smaller.
const SMALLER: usize = 4;

const DUE: [AsideKind; 3] = [AsideKind::Deadline, AsideKind::Timer, AsideKind::Task];
const LEASES: [AsideKind; 1] = [AsideKind::Lease];
const MESSAGES: [AsideKind; 1] = [AsideKind::Message];

/// What a part of a batch came to.
struct Part {
    /// How many items its list had.
    listed: usize,
    /// Runs or senders that were passed over.
    busy: BTreeSet<Uuid>,
}

impl<D: Database> SqlStore<D> {
    pub(super) async fn fire_all(&self, due: FireDue) -> StoreResult<Fired> {
        let mut fired = Fired::default();
        let mut ready = BTreeSet::new();
        let mut except_all = BTreeSet::new();
        let (began, held) = self.held(&DUE, due.now).await?;
        for shard in self.shards().from(due.first_shard) {
            let mut max = Shares::all(due.max);
            let mut except = held.clone();
            let fire = |max, except| FireShard {
                shard,
                max,
                except,
                jitter: due.jitter,
                now: due.now,
            };
            for _ in 0..PASSES_MAX {
                let intent = fire(max, except.iter().copied().collect());
                let error = match self.twice(intent).await {
                    Ok(of_shard) => {
                        add(&mut fired, &mut ready, of_shard.fired);
                        except.extend(of_shard.busy);
                        if of_shard.heavy {
                            // They are due still, so that the next call comes at once, with what has
                            // become due meanwhile.
                            break;
                        }
                        match of_shard.left {
                            Some(left) => max = left,
                            None => break,
                        }
                        continue;
                    }
                    Err(error) => error,
                };
                self.may_be_one(error).await?;
                for (kind, share) in DUE.into_iter().zip([max.runs, max.timers, max.tasks]) {
                    let make = |max, except| fire(Shares::only(kind, max), except);
                    let take = |of_shard: FiredShard| {
                        add(&mut fired, &mut ready, of_shard.fired);
                        Part {
                            listed: of_shard.listed,
                            busy: of_shard.busy,
                        }
                    };
                    self.isolate(kind, shard, share, due.now, &mut except, make, take)
                        .await?;
                }
                break;
            }
            except_all.extend(except);
        }
        self.tried(&DUE, began);
        fired.runs_timed_out.sort_unstable();
        fired.ready_runs = ready.into_iter().collect();
        let (now, aside) = self.held(&DUE, due.now).await?;
        fired.put_off = except_all.difference(&aside).count();
        let except = except_all.into_iter().collect();
        let next_due = NextDue { except };
        let next_due = self.database.write(Concern::Registry, next_due).await?;
        let next_try = now.and_then(|now| self.asides.next_try(&DUE, now));
        fired.next_due = next_due.into_iter().chain(next_try).min();
        Ok(fired)
    }

    pub(super) async fn reap_all(&self, reap: ReapLeases) -> StoreResult<Vec<ReapedTask>> {
        let mut reaped = Vec::new();
        let (began, held) = self.held(&LEASES, reap.now).await?;
        for shard in self.shards().from(reap.first_shard) {
            let mut except = held.clone();
            let intent = |max, except| ReapShard {
                shard,
                max,
                except,
                now: reap.now,
            };
            for _ in 0..PASSES_MAX {
                let max = reap.max - reaped.len();
                if max == 0 {
                    return Ok(reaped);
                }
                let whole = intent(max, except.iter().copied().collect());
                let error = match self.twice(whole).await {
                    Ok(of_shard) => {
                        reaped.extend(of_shard.reaped);
                        except.extend(of_shard.busy);
                        if of_shard.more {
                            continue;
                        }
                        break;
                    }
                    // What other shards gave is given: it would be leased to nobody until its time
                    // is up.
                    Err(_) if !reaped.is_empty() => return Ok(reaped),
                    Err(error) => error,
                };
                self.may_be_one(error).await?;
                let take = |of_shard: ReapedShard| {
                    reaped.extend(of_shard.reaped);
                    Part {
                        listed: of_shard.listed,
                        busy: of_shard.busy,
                    }
                };
                let kind = AsideKind::Lease;
                self.isolate(kind, shard, max, reap.now, &mut except, intent, take)
                    .await?;
                break;
            }
        }
        self.tried(&LEASES, began);
        Ok(reaped)
    }

    pub(super) async fn relay_all(&self, relay: RelayMessages) -> StoreResult<Relayed> {
        let mut relayed = Relayed::default();
        let (mut told, mut ended) = (BTreeSet::new(), BTreeSet::new());
        let (began, held) = self.held(&MESSAGES, relay.now).await?;
        for shard in self.shards().from(relay.first_shard) {
            let mut except = held.clone();
            let mut max = relay.max;
            let intent = |max, except| RelayShard {
                shard,
                max,
                except,
                now: relay.now,
            };
            for _ in 0..PASSES_MAX {
                let whole = intent(max, except.iter().copied().collect());
                let error = match self.twice(whole).await {
                    Ok(of_shard) => {
                        let handled = of_shard.delivered + of_shard.dropped;
                        let passed_over = !of_shard.busy.is_empty();
                        let went_on = handled > 0 || of_shard.partial || passed_over;
                        let more = of_shard.more;
                        max = max.saturating_sub(handled);
                        let busy = deliver(&mut relayed, &mut told, &mut ended, of_shard);
                        except.extend(busy);
                        // A list that was full may have more behind what was passed over or did not
                        // fit.
                        if max == 0 || !more || !went_on {
                            break;
                        }
                        continue;
                    }
                    Err(error) => error,
                };
                self.may_be_one(error).await?;
                let take = |of_shard: RelayedShard| Part {
                    listed: of_shard.listed,
                    busy: deliver(&mut relayed, &mut told, &mut ended, of_shard),
                };
                let kind = AsideKind::Message;
                self.isolate(kind, shard, max, relay.now, &mut except, intent, take)
                    .await?;
                break;
            }
            relayed.put_off += except.difference(&held).count();
        }
        self.tried(&MESSAGES, began);
        relayed.ready_runs = told.difference(&ended).copied().collect();
        Ok(relayed)
    }

    /// What is set aside and not to be tried yet, and the instant of that; none while nothing is
    /// set aside.
    async fn held(
        &self,
        kinds: &[AsideKind],
        now: Option<Timestamp>,
    ) -> StoreResult<(Option<Timestamp>, BTreeSet<Uuid>)> {
        if self.asides.is_empty() {
            return Ok((None, BTreeSet::new()));
        }
        let now = self.database.clock(now).await?;
        let held = self.asides.held(kinds, now).into_iter().collect();
        Ok((Some(now), held))
    }

    fn tried(&self, kinds: &[AsideKind], began: Option<Timestamp>) {
        if let Some(began) = began {
            self.asides.tried(kinds, began);
        }
    }

    /// Carries out an intent, and once more if it fails: a server that was restarted is
    /// no item's fault.
    async fn twice<I: Intent + Clone>(&self, intent: I) -> StoreResult<I::Answer> {
        match self.database.write(Concern::Events, intent.clone()).await {
            Ok(answer) => Ok(answer),
            Err(error) if error.blames_all() => Err(error),
            Err(_) => self.database.write(Concern::Events, intent).await,
        }
    }

    /// Answers the error if one item may be at fault: the database is there, and it is not the
    /// schema.
    async fn may_be_one(&self, error: StoreError) -> StoreResult<StoreError> {
        if error.blames_all() {
            return Err(error);
        }
        // No instant is given: the database itself has to answer.
        self.database.clock(None).await?;
        Ok(error)
    }

    /// Carries out a batch in parts, ever smaller ones where one fails; an item that fails alone,
    /// twice, is set aside with its run.
    #[allow(
        clippy::too_many_arguments,
        reason = "one call a chore, each in one place"
    )]
    async fn isolate<I: Intent + Clone>(
        &self,
        kind: AsideKind,
        shard: i32,
        max: usize,
        now: Option<Timestamp>,
        except: &mut BTreeSet<Uuid>,
        make: impl Fn(usize, Vec<Uuid>) -> I,
        mut take: impl FnMut(I::Answer) -> Part,
    ) -> StoreResult<()> {
        let mut left = max;
        let mut size = (max / SMALLER).max(1);
        for _ in 0..PASSES_MAX {
            if left == 0 {
                break;
            }
            let some = size.min(left);
            let list: Vec<Uuid> = except.iter().copied().collect();
            let intent = make(some, list.clone());
            let written = if some == 1 {
                self.twice(intent).await
            } else {
                self.database.write(Concern::Events, intent).await
            };
            let error = match written {
                Ok(answer) => {
                    let part = take(answer);
                    if part.listed < some {
                        break;
                    }
                    left -= some;
                    size = some * 2;
                    except.extend(part.busy);
                    continue;
                }
                Err(error) => error,
            };
            let error = self.may_be_one(error).await?;
            if some > 1 {
                size = (some / SMALLER).max(1);
                continue;
            }
            let first = FirstOf {
                kind,
                shard,
                except: list,
                now,
            };
            let Some(run_id) = self.database.write(Concern::Events, first).await? else {
                break;
            };
            let at = self.database.clock(now).await?;
            if !self.asides.note(kind, run_id, error.to_string(), at) {
                return Err(error);
            }
            tracing::warn!(%run_id, kind = kind.as_str(), %error, "set aside: it fails alone, and the others go on");
            except.insert(run_id);
        }
        Ok(())
    }
}

fn add(fired: &mut Fired, ready: &mut BTreeSet<Uuid>, more: Fired) {
    fired.timers += more.timers;
    fired.tasks_ready += more.tasks_ready;
    fired.tasks_timed_out += more.tasks_timed_out;
    fired.claimable_types.extend(more.claimable_types);
    fired.runs_timed_out.extend(more.runs_timed_out);
    ready.extend(more.ready_runs);
}

/// Adds what a shard's messages did; answers the senders that were passed over.
fn deliver(
    relayed: &mut Relayed,
    told: &mut BTreeSet<Uuid>,
    ended: &mut BTreeSet<Uuid>,
    of_shard: RelayedShard,
) -> BTreeSet<Uuid> {
    relayed.delivered += of_shard.delivered;
    relayed.dropped += of_shard.dropped;
    told.extend(of_shard.told);
    ended.extend(of_shard.ended);
    of_shard.busy
}
