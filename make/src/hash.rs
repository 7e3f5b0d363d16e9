//! The two hashes of commands that logs have: rapidhash from version 7 on, MurmurHash64A before.
//! Both as `ninja` computes them, so that each program understands what the other has written.

const SECRET: [u64; 3] = [0x2d35_8dcc_aa6c_78a5, 0x8bb8_4b93_962e_acc9, 0x4b33_a62e_d433_d4a3];
const SEED: u64 = 0xbdd8_9aa9_8270_4029;

fn multiply(a: u64, b: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    (product as u64, (product >> 64) as u64)
}

fn mix(a: u64, b: u64) -> u64 {
    let (low, high) = multiply(a, b);
    low ^ high
}

fn read64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn read32(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u64::from(u32::from_le_bytes(word))
}

/// rapidhash, version 1, with its default seed.
pub fn rapidhash(key: &[u8]) -> u64 {
    let length = key.len();
    let mut seed = SEED ^ mix(SEED ^ SECRET[0], SECRET[1]) ^ length as u64;
    let (a, b) = match length {
        0 => (0, 0),
        1..=3 => {
            let [first, middle, last] = [key[0], key[length >> 1], key[length - 1]].map(u64::from);
            (first << 56 | middle << 32 | last, 0)
        }
        4..=16 => {
            let last = length - 4;
            let delta = (length & 24) >> (length >> 3);
            (read32(key, 0) << 32 | read32(key, last), read32(key, delta) << 32 | read32(key, last - delta))
        }
        _ => {
            let (mut at, mut left) = (0, length);
            if left > 48 {
                let (mut see1, mut see2) = (seed, seed);
                while left >= 48 {
                    seed = mix(read64(key, at) ^ SECRET[0], read64(key, at + 8) ^ seed);
                    see1 = mix(read64(key, at + 16) ^ SECRET[1], read64(key, at + 24) ^ see1);
                    see2 = mix(read64(key, at + 32) ^ SECRET[2], read64(key, at + 40) ^ see2);
                    at += 48;
                    left -= 48;
                }
                seed ^= see1 ^ see2;
            }
            if left > 16 {
                seed = mix(read64(key, at) ^ SECRET[2], read64(key, at + 8) ^ seed ^ SECRET[1]);
                if left > 32 {
                    seed = mix(read64(key, at + 16) ^ SECRET[2], read64(key, at + 24) ^ seed);
                }
            }
            (read64(key, length - 16), read64(key, length - 8))
        }
    };
    let (a, b) = multiply(a ^ SECRET[1], b ^ seed);
    mix(a ^ SECRET[0] ^ length as u64, b ^ SECRET[1])
}

/// MurmurHash64A, with the seed of `ninja`'s logs.
pub fn murmurhash(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = 0xDECA_FBAD_DECA_FBAD ^ (key.len() as u64).wrapping_mul(M);
    let words = key.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        let mut k = read64(word, 0).wrapping_mul(M);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u64::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 47
}
