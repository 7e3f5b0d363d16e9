//! Which cores are near a device: those that the system lists for its address on the PCI bus. Used
//! by `mod.rs` (`Backend::cores`), without a state. `src/engine/gpu/admit.rs` has the device's
//! workers pinned there.

#![forbid(unsafe_code)]

/// The cores near the device at an address such as `0000:65:00.0`; none if the system does not say.
pub fn near(address: &str) -> Vec<usize> {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    if !address.contains(':') || !address.chars().all(is_part) {
        return Vec::new();
    }
    // The driver writes capital letters, the system small ones.
    let path = format!("/sys/bus/pci/devices/{}/local_cpulist", address.to_ascii_lowercase());
    std::fs::read_to_string(path).map(|text| listed(&text)).unwrap_or_default()
}

/// The numbers of a list such as `0-3,8,10-11`; none of a list that cannot be read.
fn listed(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    let ranges: Option<Vec<_>> = text.trim().split(',').map(range).collect();
    // The system's own limit is 8192.
    ranges.unwrap_or_default().into_iter().flatten().take(1 << 13).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(listed("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(listed("5"), [5]);
        for text in ["", "\n", "a", "1-", "1-2-3", "0,,1"] {
            assert_eq!(listed(text), [0; 0], "{text:?}");
        }
    }

    #[test]
    fn addresses_that_are_none_have_no_cores() {
        for address in ["", "0000", "../../:", "0000:zz:00.0", "ffff:ff:1f.7"] {
            assert_eq!(near(address), [0; 0], "{address}");
        }
    }
}
