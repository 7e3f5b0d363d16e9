//! Where the oracle's programs come from: large random ones of a seed, and small ones that shrink.

use crate::common::{mix, Random};
use crate::program::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use seriatim::{IdlePolicy, Kind, Property, WhenFull};

/// How often things happen in one program.
struct Rates {
    fails: usize,
    nested: usize,
    asynchronous: usize,
    plain: usize,
    wide: usize,
    deletes: usize,
    waits: usize,
    work: usize,
}

/// The program of a seed.
pub fn random(seed: u64) -> Program {
    let mut random = Random(seed);
    let r = &mut random;
    let shape = Shape {
        kind: r.pick(&[Kind::Naive, Kind::Pooled, Kind::PerDevice, Kind::PerDevice]),
        workers: r.between(1, 4),
        idle: r.pick(&[IdlePolicy::SpinThenPark, IdlePolicy::SpinThenPark, IdlePolicy::Park]),
        waiters_help: r.chance(60),
        bound: r.pick(&[0, 0, 0, 3, 50]),
        when_full: r.pick(&[WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock]),
        inline_below: r.pick(&[0, 0, 300, 1_000_000]),
        variables: r.pick(&[1, 2, 3, 5, 8, 16, 40, 100]),
        commutative: 0,
        watched: r.chance(5),
        // Not of the program's own random numbers, so that a seed is the program that it was. Miri
        // objects to how the reclaimer ends its members there, in the reclaimer's own code.
    };
    let fails = r.pick(&[0, 0, 0, 1, 1, 2, 4, 15]);
    let rates = Rates {
        fails,
        nested: r.pick(&[0, 0, 0, 3, 10]),
        asynchronous: r.pick(&[0, 5, 30]),
        plain: r.pick(&[30, 90, 100]),
        wide: r.pick(&[0, 2, 10]),
        deletes: r.pick(&[0, 0, 2, 10]),
        // What failed stops what depends on it until someone waits.
        waits: if fails > 0 { r.pick(&[1, 5, 15]) } else { r.pick(&[0, 0, 1, 3]) },
        work: r.pick(&[0, 0, 20, 200]),
    };
    let pushers = r.pick(&[1, 1, 1, 2, 3]);
    // Miri takes a thousand times as long.
    let most = if cfg!(miri) { 12 } else { usize::MAX };
    let steps = r.pick(&[100, 500, 1_000, 3_000]).min(most) / pushers;
    let variables = shape.variables;
    let operators: Vec<Template> = (0..r.pick(&[0, 1, 3])).map(|_| template(r, variables, &rates)).collect();
    let mut graphs: Vec<Recording> =
        (0..r.pick(&[0, 0, 1, 2, 4])).map(|_| recording(r, variables, operators.len(), &rates)).collect();
    // As above: no random number of the program's.
    for (number, graph) in (seed..).zip(&mut graphs) {
        graph.overlaps = number % 3 == 0;
    }
    let replays = if graphs.is_empty() { 0 } else { r.pick(&[2, 10]) };
    let mut step = |_| {
        // Few deletions, or nothing is left to use.
        if r.below(1_000) < rates.deletes {
            return Step::Delete(r.below(variables));
        }
        if r.chance(rates.waits) {
            return if r.chance(20) { Step::WaitForAll } else { Step::WaitFor(r.below(variables)) };
        }
        if r.below(2_000) == 0 {
            return Step::Restart;
        }
        if !operators.is_empty() && r.chance(10) {
            return Step::Use(r.below(operators.len()), r.below(5) as i32 - 2);
        }
        if r.chance(replays) {
            let graph = r.below(graphs.len());
            return match r.below(40) {
                0 => Step::Drop(graph),
                1..10 => Step::Set(graph, r.next()),
                _ => Step::Replay(graph, if r.chance(rates.plain) { 0 } else { r.below(5) as i32 - 2 }),
            };
        }
        Step::Push(operation(r, variables, &rates, 2))
    };
    let pushers = (0..pushers).map(|_| (0..steps).map(&mut step).collect()).collect();
    let mut program = Program { shape, operators, graphs, pushers };
    // As above. What is declared short starts inside its push, once it is known to be so; with a
    // limit that most closures keep.
    if seed % 4 == 1 {
        program.shape.inline_below = 1_000_000;
        program.templates(&mut |template| {
            if template.body.is_async() && template.property == Property::Normal {
                template.property = Property::Short;
            }
        });
    }
    // As above. Some variables are commutative, and some operations commute there.
    if seed % 5 == 3 {
        program.shape.commutative = [1, variables.div_ceil(2), variables][(seed / 5 % 3) as usize];
        let mut number = seed;
        program.templates(&mut |template| {
            number += 1;
            template.commutes = mix(number) % 4 > 0;
        });
    }
    program.tamed()
}

fn recording(r: &mut Random, variables: usize, operators: usize, rates: &Rates) -> Recording {
    let member = |r: &mut Random| {
        if operators > 0 && r.chance(10) {
            Member::Use(r.below(operators), r.below(5) as i32 - 2)
        } else {
            Member::Push(operation(r, variables, rates, 1))
        }
    };
    Recording {
        members: (0..r.pick(&[0, 1, 2, 5, 12, 40])).map(|_| member(r)).collect(),
        spreads_after: r.pick(&[None, Some(0), Some(1), Some(7)]),
        counts: r.chance(50),
        overlaps: false,
    }
}

fn operation(r: &mut Random, variables: usize, rates: &Rates, depth: usize) -> Operation {
    let nested = if depth > 0 && r.chance(rates.nested) { r.between(1, 3) } else { 0 };
    Operation {
        template: template(r, variables, rates),
        priority: if r.chance(rates.plain) { 0 } else { r.below(7) as i32 - 3 },
        context: if r.chance(rates.plain) { 0 } else { r.below(6) as u32 },
        large: r.chance(5),
        nested: (0..nested).map(|_| operation(r, variables, rates, depth - 1)).collect(),
    }
}

fn template(r: &mut Random, variables: usize, rates: &Rates) -> Template {
    let wide = r.chance(rates.wide);
    let (reads, writes) = if wide { (r.below(25), r.below(12)) } else { (r.below(4), r.pick(&[0, 1, 1, 1, 2])) };
    let bad = r.chance(rates.fails);
    let asynchronous = r.chance(rates.asynchronous);
    let among = if bad { &BAD[..] } else { &GOOD };
    let fitting: Vec<Body> = among.iter().copied().filter(|body| body.is_async() == asynchronous).collect();
    Template {
        reads: (0..reads).map(|_| r.below(variables)).collect(),
        writes: (0..writes).map(|_| r.below(variables)).collect(),
        commutes: false,
        property: if r.chance(rates.plain) { Property::Normal } else { r.pick(&PROPERTIES) },
        body: r.pick(&fitting),
        work: if rates.work > 0 && r.chance(50) { r.below(rates.work) as u32 } else { 0 },
    }
}

// ---- Small programs that shrink ----

/// Programs of a few steps, for proptest: what fails is cut down to what is needed to fail.
pub fn small() -> impl Strategy<Value = Program> {
    const VARIABLES: usize = 5;
    let shape = (
        select(&[Kind::Naive, Kind::Pooled, Kind::PerDevice][..]),
        1..4usize,
        any::<bool>(),
        select(&[0usize, 0, 1, 4][..]),
        select(&[WhenFull::Block, WhenFull::Help, WhenFull::WouldBlock][..]),
        select(&[0, 300, 1_000_000][..]),
        select(&[0, 0, 2, 5][..]),
    );
    let shape = shape.prop_map(|(kind, workers, waiters_help, bound, when_full, inline_below, commutative)| Shape {
        kind,
        workers,
        idle: IdlePolicy::default(),
        waiters_help,
        bound,
        when_full,
        inline_below,
        variables: VARIABLES,
        commutative,
        watched: false,
    });
    let step = prop_oneof![
        20 => small_operation(VARIABLES).prop_map(Step::Push),
        4 => (0..2usize, -2..3i32).prop_map(|(operator, priority)| Step::Use(operator, priority)),
        4 => (0..2usize, -2..3i32).prop_map(|(graph, priority)| Step::Replay(graph, priority)),
        1 => (0..2usize, any::<u64>()).prop_map(|(graph, value)| Step::Set(graph, value)),
        1 => (0..2usize).prop_map(Step::Drop),
        1 => (0..VARIABLES).prop_map(Step::Delete),
        3 => (0..VARIABLES).prop_map(Step::WaitFor),
        1 => Just(Step::WaitForAll),
        1 => Just(Step::Restart),
    ];
    let operators = vec(small_template(VARIABLES), 2);
    let graphs = vec(small_recording(VARIABLES), 0..3);
    let parts = (shape, operators, graphs, vec(vec(step, 0..40), 1..4), any::<bool>());
    parts.prop_map(|(shape, operators, graphs, pushers, may_fail)| {
        let mut program = Program { shape, operators, graphs, pushers };
        if !may_fail {
            program.templates(&mut |template| template.body = template.body.mended());
        }
        program.tamed()
    })
}

fn small_recording(variables: usize) -> impl Strategy<Value = Recording> {
    let member = prop_oneof![
        8 => small_operation(variables).prop_map(Member::Push),
        1 => (0..2usize, -2..3i32).prop_map(|(operator, priority)| Member::Use(operator, priority)),
    ];
    (vec(member, 0..8), select(&[None, Some(0), Some(1), Some(2)][..]), any::<bool>(), any::<bool>())
        .prop_map(|(members, spreads_after, counts, overlaps)| Recording { members, spreads_after, counts, overlaps })
}

fn small_template(variables: usize) -> impl Strategy<Value = Template> {
    let body = prop_oneof![12 => select(&GOOD[..]), 1 => select(&BAD[..])];
    let lists = (vec(0..variables, 0..4), vec(0..variables, 0..3));
    let rest = (select(&PROPERTIES[..]), body, 0..100u32, any::<bool>());
    (lists, rest).prop_map(|((reads, writes), (property, body, work, commutes))| Template {
        reads,
        writes,
        commutes,
        property,
        body,
        work,
    })
}

fn small_operation(variables: usize) -> impl Strategy<Value = Operation> {
    let leaf = (small_template(variables), -2..3i32, 0..5u32, any::<bool>());
    let leaf = leaf.prop_map(|(template, priority, context, large)| Operation {
        template,
        priority,
        context,
        large,
        nested: Vec::new(),
    });
    leaf.prop_recursive(2, 6, 2, |inner| {
        (inner.clone(), vec(inner, 0..2)).prop_map(|(mut operation, nested)| {
            operation.nested = nested;
            operation
        })
    })
}
