//! What operations are lent, in every form in which it can be named.

use crate::common::*;
use seriatim::{Context, Each, EachMut, ErrorKind, Property, Value, Write};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

#[test]
fn values_are_read_and_changed_in_push_order() {
    on_every_engine(|engine| {
        let (x, y) = (engine.value(1_u64), engine.value(Vec::new()));
        for _ in 0..50 {
            engine.op("append").run((&x, Write(&y)), |(x, y)| y.push(*x)).unwrap();
            engine.op("double").run(Write(&x), |x| *x = x.wrapping_mul(2)).unwrap();
        }
        let expected: Vec<u64> = (0..50).map(|power| 1 << power).collect();
        assert_eq!(*y.read().unwrap(), expected);
        assert_eq!(engine.version(y.variable()).unwrap(), 50);
    });
}

#[test]
fn every_form_is_lent_as_it_is_named() {
    on_every_engine(|engine| {
        let values: Vec<Value<usize>> = (0..40).map(|number| engine.value(number)).collect();
        let sum = engine.value(0_usize);
        engine.op("nothing").run((), |()| ()).unwrap();
        engine.op("one in a tuple").run((Write(&sum),), |(sum,)| *sum = 1).unwrap();
        let none = None::<Write<&Value<usize>>>;
        engine
            .op("options")
            .run((Some(&values[3]), none, Some(Write(&sum))), |(three, none, sum)| {
                assert!(none.is_none());
                *sum.unwrap() += three.unwrap();
            })
            .unwrap();
        engine
            .op("arrays")
            .run(([&values[1], &values[2]], [Write(&sum)]), |([one, two], [sum])| *sum += one + two)
            .unwrap();
        engine
            .op("slices")
            .run((&values[10..], Write(&values[..10]), Write(&sum)), |(read, mut changed, sum)| {
                let _: (Each<'_, usize>, &EachMut<'_, usize>) = (read, &changed);
                assert_eq!((read.len(), changed.len()), (30, 10));
                *sum += read.iter().sum::<usize>() + read[29] + changed.iter().rev().sum::<usize>();
                changed.iter_mut().for_each(|value| *value += 100);
                changed[9] = 0;
            })
            .unwrap();
        engine
            .op("nested")
            .run(((&values[0], (&values[9], Some([&values[8]]))), Write(&sum)), |((first, (last, more)), sum)| {
                *sum += first + last + more.unwrap()[0];
            })
            .unwrap();
        let expected = 1 + 3 + 3 + (10..40).sum::<usize>() + 39 + (0..10).sum::<usize>() + 100 + 108;
        assert_eq!(*sum.read().unwrap(), expected);
        assert_eq!(*values[1].read().unwrap(), 101);
    });
}

#[test]
fn twelve_values_of_different_types_go_into_one_operation() {
    on_every_engine(|engine| {
        let (a, b, c, d) = (engine.value(1_u8), engine.value(2_u16), engine.value(3_u32), engine.value(4_u64));
        let (e, f, g, h) = (engine.value(5_i8), engine.value(6_i16), engine.value("7"), engine.value('8'));
        let (i, j) = (engine.value(String::from("9")), engine.value(Some(10)));
        let (k, l) = (engine.value(vec![11]), engine.value(String::new()));
        engine
            .op("twelve")
            .run(
                (&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, Write(&k), Write(&l)),
                |(a, b, c, d, e, f, g, h, i, j, k, l)| {
                    *l = format!("{a}{b}{c}{d}{e}{f}{g}{h}{i}{}{}", j.unwrap(), k[0]);
                    k.clear();
                },
            )
            .unwrap();
        assert_eq!(*l.read().unwrap(), "1234567891011");
        assert!(k.read().unwrap().is_empty());
    });
}

#[test]
fn the_run_context_comes_first_where_it_is_wanted() {
    on_every_engine(|engine| {
        let (x, text) = (engine.value(7), engine.value(String::new()));
        let op = engine.op("named").context(Context::cpu(1)).priority(3).property(Property::CpuPrioritized);
        op.run_with((&x, Write(&text)), |run, (x, text)| *text = format!("{} {x} {}", run.name(), run.context()))
            .unwrap();
        assert_eq!(*text.read().unwrap(), format!("named 7 {}", Context::cpu(1)));
    });
}

/// The sizes go every way of a push: inside it, into a log, into a block, into a box.
#[test]
fn closures_of_every_size_are_lent_what_they_name() {
    fn add<const BYTES: usize>(x: &Value<usize>, total: &Value<usize>, engine: &seriatim::Engine) {
        let bytes = [1_u8; BYTES];
        let body =
            move |(x, total): (&usize, &mut usize)| *total += x + bytes.iter().filter(|byte| **byte == 1).count();
        engine.op("add").run((x, Write(total)), body).unwrap();
    }
    on_every_engine(|engine| {
        let (x, total) = (engine.value(1), engine.value(0));
        for _ in 0..20 {
            add::<0>(&x, &total, &engine);
            add::<40>(&x, &total, &engine);
            add::<300>(&x, &total, &engine);
            add::<600>(&x, &total, &engine);
        }
        assert_eq!(*total.read().unwrap(), 20 * (4 + 940));
    });
}

#[test]
fn graphs_and_operators_are_lent_values_again_and_again() {
    on_every_engine(|engine| {
        let (x, sums) = (engine.value(1_u64), [engine.value(0_u64), engine.value(0)]);
        let record = |c: &mut seriatim::Capture| {
            let mut calls = 0;
            c.op("add").run((&x, Write(&sums[..])), move |(x, mut sums)| {
                calls += 1;
                sums.iter_mut().for_each(|sum| *sum += x * calls);
            })?;
            c.op("step").run_with(Write(&x), |run, x| *x += u64::from(run.name() == "step"))
        };
        let (graph, ()) = engine.capture(record).unwrap();
        let half = engine.op("halve").operator_on([Write(&sums[0])], |[sum]| *sum /= 2).unwrap();
        for _ in 0..3 {
            graph.replay().unwrap();
        }
        engine.push(&half, Context::cpu(0), 0).unwrap();
        assert_eq!([*sums[0].read().unwrap(), *sums[1].read().unwrap()], [7, 14]);
        engine.push(&half, Context::cpu(0), 0).unwrap();
        // In a graph an operator and a value that is private to it.
        let (graph, ()) = engine
            .capture(|c| {
                c.make_private(&x)?;
                c.op("count").run((Write(&x), Write(&sums[1])), |(x, sum)| {
                    *x += 1;
                    *sum = *x;
                })?;
                c.push(&half, Context::cpu(0), 0)
            })
            .unwrap();
        graph.replay().unwrap();
        graph.replay().unwrap();
        assert_eq!([*sums[0].read().unwrap(), *sums[1].read().unwrap()], [0, 6]);
        assert_says(&x.read().unwrap_err(), ErrorKind::PrivateVariable, &[]);
    });
}

#[test]
fn pipelines_and_instances_are_lent_values() {
    on_every_engine(|engine| {
        let (x, y) = (engine.value(0_u64), engine.value(0_u64));
        let record = |c: &mut seriatim::Capture| {
            c.op("first").run(Write(&x), |x| *x += 1)?;
            c.op("second").run((&x, Write(&y)), |(x, y)| *y += x)
        };
        let (mut pipeline, ()) = engine.capture_pipeline(record).unwrap();
        (0..10).for_each(|_| pipeline.replay().unwrap());
        assert_eq!(*y.read().unwrap(), 55);
        let (mut instances, _) = engine.capture_instances(2, |c, _| record(c)).unwrap();
        (0..2).for_each(|_| _ = instances.replay().unwrap());
        assert_eq!(*y.read().unwrap(), 55 + 11 + 12);
    });
}

#[test]
fn what_is_only_changed_need_not_be_sync() {
    on_every_engine(|engine| {
        let count = engine.value(Cell::new(0));
        for _ in 0..100 {
            engine.op("count").run(Write(&count), |cell| cell.set(cell.get() + 1)).unwrap();
        }
        assert_eq!(count.write().unwrap().get(), 100);
    });
}

#[test]
fn variables_and_values_order_each_other() {
    on_every_engine(|engine| {
        let (x, seen) = (engine.value(0), Arc::new(AtomicUsize::new(0)));
        let other = engine.new_variable();
        for round in 0..20 {
            engine.op("change").run(Write(&x), move |x| *x = round).unwrap();
            let seen = Arc::clone(&seen);
            // The raw claim of the value comes with no reference; so it may name it once more.
            engine.op("note").write(&x).write(other).run(&x, move |x| seen.store(*x, SeqCst)).unwrap();
        }
        engine.wait_for_var(other).unwrap();
        assert_eq!((seen.load(SeqCst), engine.version(x.variable()).unwrap()), (19, 40));
    });
}

#[test]
fn a_failure_marks_what_it_changes_and_skips_what_is_behind() {
    on_every_engine(|engine| {
        let (x, y) = (engine.value(1), engine.value(1));
        engine
            .op("fails")
            .run(Write(&x), |x| -> Result<(), &str> {
                *x = 2;
                Err("half way")
            })
            .unwrap();
        engine.op("skipped").run((&x, Write(&y)), |(x, y)| *y += x).unwrap();
        assert_failed(y.read().map(drop), "half way");
        assert_eq!((*x.read().unwrap(), *y.read().unwrap()), (2, 1));
        engine
            .op("panics")
            .run(Write(&x), |x| {
                *x = 3;
                std::panic::resume_unwind(Box::new("on purpose"));
            })
            .unwrap();
        assert_says(&x.write().map(drop).unwrap_err(), ErrorKind::OperationPanicked, &["panics", "on purpose"]);
        *x.write().unwrap() += 1;
        assert_eq!(*x.read().unwrap(), 4);
    });
}

#[test]
fn a_value_of_another_engine_is_refused() {
    on_every_engine(|engine| {
        let other = seriatim::Engine::builder().cpu_workers(1).build().unwrap();
        let (x, y) = (engine.value(1), other.value(1));
        let refused = engine.op("crossed").run((&x, Write(&y)), |(x, y)| *y += x).unwrap_err();
        assert_says(&refused, ErrorKind::ForeignVariable, &[]);
        let refused = engine.capture(|c| c.op("crossed").run(Write(&y), |y| *y += 1)).unwrap_err();
        assert_says(&refused, ErrorKind::ForeignVariable, &[]);
        assert_eq!(*y.read().unwrap(), 1);
    });
}

/// Values that do not lie side by side, and slices in loops.
#[test]
fn slices_of_handles_are_lent_like_slices_of_values() {
    on_every_engine(|engine| {
        let values: Vec<_> = (0..6).map(|number| engine.value(number)).collect();
        let odd: Vec<_> = values.iter().skip(1).step_by(2).collect();
        let even: Vec<_> = values.iter().step_by(2).collect();
        engine
            .op("add")
            .run((&odd[..], Write(&even[..])), |(odd, even)| {
                assert_eq!((odd.len(), even.len(), odd[1], even[2]), (3, 3, 3, 4));
                for (even, odd) in even.into_iter().zip(odd) {
                    *even += 10 * odd;
                }
            })
            .unwrap();
        let sum = engine.op("sum").compute_on(&values[..], |values| {
            let mut sum = 0;
            for value in &values {
                sum += value;
            }
            (sum, values.iter().rev().copied().collect::<Vec<_>>())
        });
        assert_eq!(sum.unwrap().wait().unwrap(), (105, vec![5, 54, 3, 32, 1, 10]));
        let twice = [&values[0], &values[0]];
        engine.op("reads").run(&twice[..], |twice| assert_eq!(twice[0], twice[1])).unwrap();
        let refused = engine.op("alias").run(Write(&twice[..]), |_| ());
        assert_says(&refused.unwrap_err(), ErrorKind::BorrowConflict, &[]);
        let (graph, ()) = engine
            .capture(|c| {
                c.op("step").run((&odd[..1], Write(&even[..1])), |(odd, mut even)| {
                    for even in &mut even {
                        *even += odd[0];
                    }
                })
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_var(&values[0]).unwrap();
        assert_eq!((*values[0].read().unwrap(), engine.version(&values[0]).unwrap()), (11, 2));
        assert_eq!(format!("{}", values[0].read().unwrap()), "11");
        engine.wait_for_all().unwrap();
    });
}
