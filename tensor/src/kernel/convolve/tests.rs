//! Windows of images of many widths, gathered into columns. `tests/layers.rs` compares whole
//! convolutions with loops.

use super::*;

/// Rows are copied some elements at a time, so the number of windows in a row counts.
#[test]
fn windows_of_rows_of_any_length_are_gathered() {
    for (width, kernel, pad) in
        (1..=21usize).flat_map(|width| [(width, 1, 0), (width, 3, 0), (width, 3, 1), (width, 5, 2)])
    {
        let size = [6, width];
        let padded = size.map(|size| size + 2 * pad);
        let Some(places) = padded[1].checked_sub(kernel) else { continue };
        let out = [padded[0] - kernel + 1, places + 1];
        let window = Window { kernel: [kernel; 2], stride: [1; 2], dilate: [1; 2], pad: [pad; 2] };
        let of = Geometry { images: 2, groups: 1, channels: 2, filters: 1, size, out, window };
        let data: Vec<f32> = (0..2 * 2 * of.pixels()).map(|at| 1.0 + at as f32).collect();
        let mut columns = vec![f32::NAN; of.depth() * 2 * of.places()];
        of.gather(&data, (0, 2), 0, &mut columns);
        let mut found = columns.iter();
        for tap in 0..of.depth() {
            let (channel, down, right) = (tap / (kernel * kernel), tap / kernel % kernel, tap % kernel);
            for place in 0..2 * of.places() {
                let (image, y, x) = (place / of.places(), place / out[1] % out[0] + down, place % out[1] + right);
                let inside = (pad..pad + size[0]).contains(&y) && (pad..pad + width).contains(&x);
                let row = (image * 2 + channel) * size[0] + y.wrapping_sub(pad);
                let expected = if inside { data[row * width + x - pad] } else { 0.0 };
                assert_eq!(found.next(), Some(&expected), "{width} {kernel} {pad}: tap {tap}, place {place}");
            }
        }
    }
}
