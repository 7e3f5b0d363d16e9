//! Windows of images of many widths, gathered into columns. `tests/layers.rs` compares whole
//! convolutions with loops.

use super::*;

/// Rows are copied some elements at a time, so the number of windows in a row counts. Where
/// windows are the image, moved, images of six rows have masks, and those of 4,097 elements or more
/// have none.
#[test]
fn windows_of_rows_of_any_length_are_gathered_and_scattered() {
    for (height, width, kernel, pad) in (1..=21usize)
        .flat_map(|width| [(6, width), (4096 / width + 1, width)])
        .flat_map(|(high, width)| [(1, 0), (3, 0), (3, 1), (5, 2)].map(|(kernel, pad)| (high, width, kernel, pad)))
    {
        let size = [height, width];
        let padded = size.map(|size| size + 2 * pad);
        let Some(places) = padded[1].checked_sub(kernel) else { continue };
        let out = [padded[0] - kernel + 1, places + 1];
        let window = Window { kernel: [kernel; 2], stride: [1; 2], dilate: [1; 2], pad: [pad; 2] };
        let of = Geometry { images: 2, groups: 1, channels: 2, filters: 1, size, out, window };
        let data: Vec<f32> = (0..2 * 2 * of.pixels()).map(|at| 1.0 + at as f32).collect();
        let mut columns = vec![f32::NAN; of.depth() * 2 * of.places()];
        let masks = &mut vec![f32::NAN; of.masks()];
        of.write_masks(masks);
        of.gather(&data, (0, 2), 0, (&mut columns, masks));
        let weights: Vec<f32> = (0..columns.len()).map(|at| (at % 13) as f32 - 6.0).collect();
        let (mut back, mut expected_back) = (vec![0.0; data.len()], vec![0.0; data.len()]);
        of.scatter((&mut weights.clone(), masks), (0, 2), 0, &mut back);
        let mut found = columns.iter().zip(&weights);
        for tap in 0..of.depth() {
            let (channel, down, right) = (tap / (kernel * kernel), tap / kernel % kernel, tap % kernel);
            for place in 0..2 * of.places() {
                let (image, y, x) = (place / of.places(), place / out[1] % out[0] + down, place % out[1] + right);
                let inside = (pad..pad + size[0]).contains(&y) && (pad..pad + width).contains(&x);
                let row = (image * 2 + channel) * size[0] + y.wrapping_sub(pad);
                let Some((found, weight)) = found.next() else { panic!("a column is missing") };
                let mut expected = 0.0;
                if inside {
                    expected = data[row * width + x - pad];
                    expected_back[row * width + x - pad] += *weight;
                }
                assert_eq!(*found, expected, "{size:?} {kernel} {pad}: tap {tap}, place {place}");
            }
        }
        assert_eq!(back, expected_back, "{size:?} {kernel} {pad}");
    }
}
