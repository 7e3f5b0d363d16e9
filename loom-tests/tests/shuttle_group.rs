//! A group of two workers under random schedules: what takes more steps than loom can explore.

#![cfg(shuttle)]

use loom_tests::{schedules, Blocks};
use seriatim::internals::block::Block;
use seriatim::internals::group::{Group, IdlePolicy, Plan, Where};
use seriatim::internals::Host;
use shuttle::sync::{Condvar, Mutex};
use std::sync::{Arc, Mutex as Plain, OnceLock};

/// Runs three operations, of which the second ends only when the third has run.
struct Gate {
    blocks: Blocks,
    group: OnceLock<Arc<Group>>,
    open: Mutex<bool>,
    opened: Condvar,
    ended: Mutex<usize>,
    end: Condvar,
    order: Plain<Vec<usize>>,
}

impl Host for Gate {
    unsafe fn run(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) {
        let number = self.blocks.iter().position(|known| *known == block.addr()).expect("one of ours");
        self.order.lock().unwrap().push(10 * number + worker.expect("a worker runs it"));
        match number {
            1 => {
                let mut open = self.open.lock().unwrap();
                while !*open {
                    open = self.opened.wait(open).unwrap();
                }
            }
            2 => {
                *self.open.lock().unwrap() = true;
                self.opened.notify_all();
            }
            _ => {}
        }
        *self.ended.lock().unwrap() += 1;
        self.end.notify_all();
    }

    fn idle(&self) {}
}

#[test]
fn what_comes_while_a_worker_takes_something_else_is_not_forgotten() {
    schedules("an operation that comes to a worker which is stealing", 3, 60_000, || {
        let group = Arc::new(Group::new(Plan {
            name: "",
            workers: 2,
            shared: false,
            idle: IdlePolicy::Park,
            cores: Vec::new(),
            move_callers: false,
        }));
        let host = Arc::new(Gate {
            blocks: Blocks::new(3),
            group: OnceLock::from(group.clone()),
            open: Mutex::new(false),
            opened: Condvar::new(),
            ended: Mutex::new(0),
            end: Condvar::new(),
            order: Plain::default(),
        });
        group.start(&host).unwrap();
        for (number, worker) in [(0, 0), (1, 1), (2, 0)] {
            // SAFETY: each operation is submitted once.
            unsafe { host.group.get().expect("set").submit(host.blocks.pointer(number), Where::Worker(worker)) };
        }
        let mut ended = host.ended.lock().unwrap();
        while *ended < 3 {
            ended = host.end.wait(ended).unwrap();
        }
        drop(ended);
        group.stop();
        let order = host.order.lock().unwrap().clone();
        let mut ran: Vec<usize> = order.iter().map(|entry| entry / 10).collect();
        ran.sort_unstable();
        assert_eq!(ran, [0, 1, 2], "an operation was lost or ran twice");
        order
    });
}
