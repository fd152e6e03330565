//! Slow, silent and forgetful workers, in virtual time.

use everruns_durable::core::{Fact, Payload};
use everruns_durable::hosting::{Asked, Item};
use everruns_durable::workflow::RunInfo;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};
use tonic::Status;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// The worker's end of a session.
struct Worker {
    turns: Arc<Turns>,
    queue: mpsc::Receiver<Result<v1::ServerMessage, Status>>,
}

impl Worker {
    fn new(places: usize) -> Self {
        let (sender, queue) = mpsc::channel(places + 1);
        let turns = Turns::new("w".to_owned(), Outbox::new(sender), places);
        Self { turns, queue }
    }

    /// Asks for a turn, beside the test.
    fn ask(&self, run: Uuid, beginning: Beginning) -> JoinHandle<Result<Vec<Step>, HostError>> {
        let turns = Arc::clone(&self.turns);
        tokio::spawn(async move { turns.turn(activation(run, beginning)).await })
    }

    async fn next(&mut self) -> v1::Activation {
        let message = self.queue.recv().await.expect("open").expect("a message");
        match message.message.expect("it says something") {
            Message::Activation(activation) => activation,
            other => panic!("no activation: {other:?}"),
        }
    }

    /// The next one of a run that the test has asked for.
    async fn next_of(&mut self, run: Uuid) -> v1::Activation {
        let activation = self.next().await;
        assert_eq!(run_of(&activation), run);
        activation
    }

    fn is_sent_nothing(&mut self) -> bool {
        self.queue.try_recv().is_err()
    }

    fn answer(&self, activation: &v1::Activation) {
        let answer = Answer::Steps(v1::Steps {
            steps: vec![v1::Step::default()],
        });
        let answered = self.turns.answered(v1::TurnAnswer {
            activation_id: activation.activation_id.clone(),
            answer: Some(answer),
        });
        answered.expect("well formed");
    }

    fn free_places(&self) -> usize {
        self.turns.places.available_permits()
    }

    fn is_stuck(&self) -> bool {
        self.turns.stuck().now_or_never().is_some()
    }
}

fn run_of(activation: &v1::Activation) -> Uuid {
    let run = activation.run.as_ref().expect("a run");
    run.run_id.parse().expect("an id")
}

fn activation(run_id: Uuid, beginning: Beginning) -> Activation {
    let input = Payload::null();
    Activation {
        run: RunInfo {
            run_id,
            workflow_type: "trip".to_owned(),
            version: String::new(),
            parent_run_id: None,
            attempt: 1,
            iteration: 0,
            workflow_id: None,
            memo: Payload::ABSENT,
        },
        beginning,
        items: vec![Item {
            asked: Asked::Fact(Fact::Started { input }),
            replayed: false,
            memories: Vec::new(),
        }],
    }
}

fn run(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn is_gone(turned: &Result<Vec<Step>, HostError>) -> bool {
    matches!(turned, Err(HostError::Gone(_)))
}

#[tokio::test(start_paused = true)]
async fn slow_worker_that_goes_on_is_never_given_up_however_long_its_queue() {
    let mut worker = Worker::new(100);
    let asked: Vec<_> = (0..200)
        .map(|number| worker.ask(run(number), Beginning::Start))
        .collect();
    let turns = Arc::clone(&worker.turns);
    // Half a minute for all of them, one by one.
    let working = tokio::spawn(async move {
        for _ in 0..200 {
            let next = worker.next().await;
            sleep(Duration::from_millis(150)).await;
            worker.answer(&next);
        }
        worker.is_sent_nothing()
    });
    for turned in join_all(asked).await {
        assert_eq!(turned.unwrap().map(|steps| steps.len()), Ok(1));
    }
    assert!(working.await.unwrap(), "each was sent once");
    assert!(!turns.is_stalled());
}

#[tokio::test(start_paused = true)]
async fn silent_worker_is_given_up_keeps_its_places_and_loses_its_session_when_runs_still_wait() {
    let mut worker = Worker::new(2);
    let began = Instant::now();
    let asked = [1, 2, 3].map(|number| worker.ask(run(number), Beginning::Start));
    for turned in join_all(asked).await {
        assert!(is_gone(&turned.unwrap()));
    }
    assert_eq!(began.elapsed().as_secs(), TURN_TIMEOUT.as_secs());
    assert!(worker.turns.is_stalled(), "others are asked first");
    assert!(!worker.is_stuck(), "it may still answer");
    let (one, two) = (worker.next_of(run(1)).await, worker.next_of(run(2)).await);
    assert!(worker.is_sent_nothing(), "there is no place for more");
    // An answer gives it another chance.
    worker.answer(&one);
    assert!(!worker.turns.is_stalled());
    let third = worker.ask(run(3), Beginning::Start);
    let three = worker.next_of(run(3)).await;
    worker.answer(&three);
    assert!(third.await.unwrap().is_ok());
    worker.answer(&two);
    assert_eq!(worker.free_places(), 2);
    // From here on it is silent for good.
    for round in [1, 2] {
        let asked = [1, 2, 3].map(|number| worker.ask(run(number), Beginning::Start));
        for turned in join_all(asked).await {
            assert!(is_gone(&turned.unwrap()));
        }
        assert_eq!(worker.is_stuck(), round == 2);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_never_answered_is_given_up_while_others_are_answered() {
    let mut worker = Worker::new(3);
    let began = Instant::now();
    let lost = worker.ask(run(1), Beginning::Start);
    worker.next_of(run(1)).await;
    let others = tokio::spawn(async move {
        for number in 2..20 {
            let asked = worker.ask(run(number), Beginning::Start);
            let next = worker.next_of(run(number)).await;
            sleep(SECOND).await;
            worker.answer(&next);
            assert!(asked.await.unwrap().is_ok());
        }
        worker
    });
    assert!(is_gone(&lost.await.unwrap()));
    assert_eq!(began.elapsed().as_secs(), TURN_TIMEOUT.as_secs());
    let worker = others.await.unwrap();
    assert!(!worker.turns.is_stalled(), "it answers");
    assert_eq!(worker.free_places(), 2, "it may still be about it");
}

#[tokio::test(start_paused = true)]
async fn late_answer_frees_its_place_and_is_taken_for_nothing_else() {
    let mut worker = Worker::new(2);
    assert!(is_gone(
        &worker.ask(run(1), Beginning::Start).await.unwrap()
    ));
    let first = worker.next_of(run(1)).await;
    let mut again = worker.ask(run(1), Beginning::Start);
    advance(SECOND).await;
    assert!(
        worker.is_sent_nothing(),
        "one activation of a run at a time"
    );
    worker.answer(&first);
    let second = worker.next_of(run(1)).await;
    assert!((&mut again).now_or_never().is_none(), "not its answer");
    worker.answer(&first);
    worker.answer(&second);
    assert!(again.await.unwrap().is_ok());
    assert_eq!(worker.free_places(), 2, "each place came back once");
}

#[tokio::test(start_paused = true)]
async fn activation_that_the_worker_lost_is_told_anew_and_its_place_comes_back() {
    let mut worker = Worker::new(2);
    assert!(is_gone(
        &worker.ask(run(1), Beginning::Start).await.unwrap()
    ));
    worker.next_of(run(1)).await;
    let again = worker.ask(run(1), Beginning::Start);
    let second = worker.next_of(run(1)).await;
    assert_eq!(worker.free_places(), 0);
    worker.answer(&second);
    assert!(again.await.unwrap().is_ok());
    assert_eq!(worker.free_places(), 2);
}

#[tokio::test(start_paused = true)]
async fn query_waits_no_longer_than_whoever_asks() {
    let mut worker = Worker::new(1);
    let began = Instant::now();
    let turns: Vec<_> = (0..20)
        .map(|number| worker.ask(run(number), Beginning::Start))
        .collect();
    // It waits behind many others, of a worker that goes on.
    let query = worker.ask(run(98), Beginning::Apart);
    let working = tokio::spawn(async move {
        for _ in 0..20 {
            let next = worker.next().await;
            sleep(SECOND).await;
            worker.answer(&next);
        }
    });
    assert!(is_gone(&query.await.unwrap()));
    assert_eq!(began.elapsed().as_secs(), TURN_TIMEOUT.as_secs());
    for turned in join_all(turns).await {
        assert!(turned.unwrap().is_ok());
    }
    working.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn worker_that_leaves_is_sent_nothing_new_and_may_answer_what_it_has() {
    let mut worker = Worker::new(1);
    let first = worker.ask(run(1), Beginning::Start);
    let sent = worker.next_of(run(1)).await;
    let second = worker.ask(run(2), Beginning::Start);
    tokio::task::yield_now().await;
    worker.turns.stop_sending();
    assert!(is_gone(&second.await.unwrap()));
    worker.answer(&sent);
    assert!(first.await.unwrap().is_ok());
    assert!(worker.is_sent_nothing());
}

#[tokio::test(start_paused = true)]
async fn answer_that_says_nothing_breaks_its_own_run() {
    let mut worker = Worker::new(1);
    let asked = worker.ask(run(1), Beginning::Start);
    let sent = worker.next_of(run(1)).await;
    let answered = worker.turns.answered(v1::TurnAnswer {
        activation_id: sent.activation_id,
        answer: None,
    });
    assert!(answered.is_ok(), "its id can be read");
    assert!(matches!(asked.await.unwrap(), Err(HostError::Broken(_))));
}
