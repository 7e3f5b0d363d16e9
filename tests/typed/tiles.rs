//! Tiles of one array: values of their own, which do not overlap.

use crate::common::*;
use seriatim::{Engine, ErrorKind, Value, Write};
use std::ops::Range;
use std::sync::Arc;

#[test]
fn tiles_have_all_elements_once() {
    let engine = Engine::new().unwrap();
    for (length, tile, expected) in
        [(10, 3, vec![3, 3, 3, 1]), (6, 3, vec![3, 3]), (2, 9, vec![2]), (3, 0, vec![1, 1, 1]), (0, 4, vec![])]
    {
        let tiles = engine.tiles((0..length).collect(), tile);
        let lengths: Vec<usize> = tiles.iter().map(|tile| tile.read().unwrap().len()).collect();
        assert_eq!(lengths, expected);
        let all: Vec<usize> = tiles.iter().flat_map(|tile| tile.read().unwrap().to_vec()).collect();
        assert!(all.into_iter().eq(0..length));
    }
    assert_eq!(engine.tiles(vec![1; 3], usize::MAX).len(), 1);
    assert_eq!(engine.tiles(vec![(); 5], 2).len(), 3);
}

#[test]
fn ranges_that_overlap_or_leave_the_array_are_refused() {
    let engine = Engine::new().unwrap();
    let tiles = |ranges: &[Range<usize>]| engine.tiles_at(vec![0_u8; 10], ranges);
    let said = |ranges: &[Range<usize>], parts: &[&str]| {
        assert_says(&tiles(ranges).expect_err("they are wrong"), ErrorKind::BorrowConflict, parts);
    };
    said(&[0..6, 5..10], &["0..6", "5..10", "overlap"]);
    said(&[8..10, 0..3, 2..4], &["0..3", "2..4"]);
    said(&[0..10, 4..5], &["overlap"]);
    said(&[3..4, 3..4], &["overlap"]);
    said(&[0..1, 0..11], &["0..11", "10 elements"]);
    said(&[0..1, 11..11], &["none of an array"]);
    #[allow(clippy::reversed_empty_ranges)]
    said(&[0..1, 5..4], &["5..4"]);
    assert_eq!(tiles(&[5..10, 0..5, 5..5, 2..2]).unwrap().len(), 4);
}

#[test]
fn neighbouring_tiles_are_changed_at_once_and_read_together() {
    on_every_engine(|engine| {
        let tiles = engine.tiles(vec![1_u64; 64], 8);
        for round in 0..10 {
            for (number, tile) in tiles.iter().enumerate() {
                let before = if number > 0 { Some(&tiles[number - 1]) } else { None };
                engine
                    .op("step")
                    .run((before, Write(tile)), move |(before, tile)| {
                        let edge = before.map_or(round, |before| before[7]);
                        tile.iter_mut().for_each(|cell| *cell = cell.wrapping_mul(3).wrapping_add(edge));
                    })
                    .unwrap();
            }
        }
        let sum = engine.value(0_u64);
        engine
            .op("sum")
            .run((&tiles[..], Write(&sum)), |(tiles, sum)| *sum = tiles.iter().flatten().fold(0, |a, b| a ^ mix(*b)))
            .unwrap();
        let mut expected = vec![1_u64; 64];
        for round in 0..10 {
            for tile in 0..8 {
                let edge = if tile > 0 { expected[8 * tile - 1] } else { round };
                expected[8 * tile..][..8].iter_mut().for_each(|cell| *cell = cell.wrapping_mul(3).wrapping_add(edge));
            }
        }
        assert_eq!(*sum.read().unwrap(), expected.iter().fold(0, |a, b| a ^ mix(*b)));
    });
}

#[test]
fn the_array_lives_as_long_as_one_of_its_tiles() {
    on_every_engine(|engine| {
        let held = Arc::new(());
        let mut tiles: Vec<Value<[Arc<()>]>> = engine.tiles(vec![Arc::clone(&held); 6], 2);
        let last = tiles.pop().unwrap();
        drop(tiles);
        engine.wait_for_all().unwrap();
        assert_eq!((Arc::strong_count(&held), last.read().unwrap().len()), (7, 2));
        drop(last);
        engine.wait_for_all().unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    });
}
