//! Tokens that are cancelled while other threads push, run and wait.

use crate::common::*;
use seriatim::{CancelToken, Context, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::thread;

const ROUNDS: usize = if cfg!(miri) { 3 } else { 200 };
const PUSHES: usize = if cfg!(miri) { 20 } else { 400 };

/// What a closure owns: it counts calls, and drops without one.
struct Ticket(Arc<Counts>, bool);

#[derive(Default)]
struct Counts {
    called: AtomicUsize,
    skipped: AtomicUsize,
}

impl Ticket {
    fn call(&mut self) -> usize {
        self.1 = true;
        self.0.called.fetch_add(1, SeqCst)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.1 {
            self.0.skipped.fetch_add(1, SeqCst);
        }
    }
}

/// Of a chain that one thread pushes, the first ones run and the others are skipped, wherever the
/// token was cancelled; and each closure is called or dropped, once.
#[test]
fn of_a_chain_that_is_cancelled_at_any_time_a_beginning_runs() {
    on_every_engine(|engine| {
        let mut cut = 0;
        for round in 0..ROUNDS {
            let (token, counts, x) = (CancelToken::new(), Arc::new(Counts::default()), engine.new_variable());
            let last = Arc::new(AtomicUsize::new(0));
            thread::scope(|scope| {
                let cancel = token.clone();
                let seen = Arc::clone(&counts);
                scope.spawn(move || {
                    // At another place in each round.
                    let place = mix(round as u64) as usize % (PUSHES + PUSHES / 4);
                    while seen.called.load(SeqCst) < place.min(PUSHES - 1) && seen.skipped.load(SeqCst) == 0 {
                        thread::yield_now();
                    }
                    (0..mix(place as u64) % 2_000).for_each(|_| std::hint::spin_loop());
                    cancel.cancel();
                });
                for number in 0..PUSHES {
                    let (mut ticket, last) = (Ticket(Arc::clone(&counts), false), Arc::clone(&last));
                    let body = move |_: &seriatim::RunContext<'_>| {
                        assert_eq!(ticket.call(), number, "one before it was skipped");
                        last.store(number + 1, SeqCst);
                        // On one core too, the thread that cancels comes to its turn in the middle.
                        thread::yield_now();
                    };
                    engine.op("link").write(x).token(&token).push(body).unwrap();
                }
            });
            let outcome = engine.wait_for_var(x).map_err(|error| error.kind());
            let called = counts.called.load(SeqCst);
            assert_eq!(outcome, if called == PUSHES { Ok(()) } else { Err(ErrorKind::Cancelled) });
            assert_eq!(last.load(SeqCst), called);
            eventually("each is called or dropped", || called + counts.skipped.load(SeqCst) == PUSHES);
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), PUSHES as u64);
            cut += usize::from(0 < called && called < PUSHES);
        }
        assert!(cfg!(miri) || cut > 0, "it was never cancelled in the middle");
    });
}

/// Several threads push to common variables, each with tokens of its own, and cancel at random.
/// What a thread pushes behind its own `cancel` never runs.
#[test]
fn what_is_pushed_behind_a_cancel_never_runs() {
    on_every_engine(|engine| {
        let variables: [_; 4] = std::array::from_fn(|_| engine.new_variable());
        let (late, all) = (Arc::new(AtomicUsize::new(0)), Arc::new(Counts::default()));
        let push_round = |random: &mut Random| {
            let (token, cut) = (CancelToken::new(), random.below(PUSHES));
            for number in 0..PUSHES {
                let [from, to] = [random.pick(&variables), random.pick(&variables)];
                if number == cut {
                    if random.chance(50) {
                        // Takes an error, so that something runs, and lets the others come by.
                        let _ = engine.wait_for_var(to);
                    }
                    token.cancel();
                }
                let (mut ticket, late) = (Ticket(Arc::clone(&all), false), Arc::clone(&late));
                let body = move |_: &seriatim::RunContext<'_>| {
                    ticket.call();
                    late.fetch_add(usize::from(number >= cut), SeqCst);
                };
                engine.op("crossed").read(from).write(to).token(&token).push(body).unwrap();
            }
            let _ = engine.wait_for_all();
        };
        thread::scope(|scope| {
            for pusher in 0..3 {
                let push_round = &push_round;
                scope.spawn(move || {
                    let mut random = Random(pusher);
                    (0..ROUNDS / 4).for_each(|_| push_round(&mut random));
                });
            }
        });
        let _ = engine.wait_for_all();
        engine.wait_for_all().unwrap();
        assert_eq!(late.load(SeqCst), 0, "it ran behind its cancel");
        let [called, skipped] = [&all.called, &all.skipped].map(|count| count.load(SeqCst));
        assert_eq!(called + skipped, 3 * (ROUNDS / 4) * PUSHES);
        assert!(called > 0 && skipped > 0, "{called} and {skipped}");
    });
}

/// Replays of one graph, each with a token that another thread cancels.
#[test]
fn of_a_replay_that_is_cancelled_at_any_time_a_beginning_runs() {
    on_every_engine(|engine| {
        const LINKS: usize = 40;
        let (x, ran) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let (graph, ()) = engine
            .capture(|c| {
                (0..LINKS).try_for_each(|number| {
                    let ran = Arc::clone(&ran);
                    c.op("link").write(x).push(move |_| {
                        assert_eq!(ran.fetch_add(1, SeqCst), number, "one before it was skipped");
                        (0..200).for_each(|_| std::hint::spin_loop());
                    })
                })
            })
            .unwrap();
        for round in 0..ROUNDS {
            let token = CancelToken::new();
            ran.store(0, SeqCst);
            thread::scope(|scope| {
                let (cancel, ran) = (token.clone(), &ran);
                scope.spawn(move || {
                    let place = mix(round as u64) as usize % LINKS;
                    let started = std::time::Instant::now();
                    while ran.load(SeqCst) < place && started.elapsed().as_millis() < 50 {
                        std::hint::spin_loop();
                    }
                    cancel.cancel();
                });
                graph.replay_limited(0, &token).unwrap();
            });
            let outcome = engine.wait_for_var(x).map_err(|error| error.kind());
            let all = ran.load(SeqCst) == LINKS;
            assert_eq!(outcome, if all { Ok(()) } else { Err(ErrorKind::Cancelled) });
            engine.wait_for_all().unwrap();
        }
        assert_eq!(engine.version(x).unwrap(), (LINKS * ROUNDS) as u64);
    });
}

/// Operators keep their closures, whatever becomes of their uses.
#[test]
fn uses_of_one_operator_are_cancelled_each_by_its_own_token() {
    on_every_engine(|engine| {
        let (x, ran) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
        let step = engine.op("step").write(x).operator(counting(&ran)).unwrap();
        let mut expected = 0;
        for number in 0..ROUNDS {
            let token = CancelToken::new();
            if number % 3 == 0 {
                token.cancel();
            }
            engine.push_limited(&step, Context::cpu(0), 0, &token).unwrap();
            let outcome = engine.wait_for_var(x);
            assert_eq!(outcome.is_err(), number % 3 == 0);
            expected += usize::from(outcome.is_ok());
        }
        assert_eq!(ran.load(SeqCst), expected);
    });
}
