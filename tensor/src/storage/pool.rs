//! `Storage`, which gives out memory and keeps what comes back. `handle.rs` has the blocks.
//!
//! Programs make storages; `runtime.rs` has one for arrays. Any thread may take and give blocks,
//! also inside of operations: no lock is taken, and where a block of the class lies ready the
//! system's allocator is not called.
//!
//! A free block is a record of `slots.rs` in the list of its class. The record has the address and
//! the size. A block that goes back to the system leaves an empty record for the next one.
//!
//! **The limit.** A request counts as live before it has a block, and is refused if that is more
//! than the limit. Then it takes a kept block, or counts a new one as held; and it gives kept
//! blocks back to the system while more than the limit is held. So no thread waits for another, and
//! no request is refused for what is not live. When no thread is in a call, no more than the limit
//! is held. For take the request R that was the last to look at `held`, which all do by a
//! read-modify-write:
//! - If R stops because no more than the limit is held, that stays so.
//! - If not, R has looked through all lists, and what is kept in the end has come later. A block
//!   comes to its list before it is live no more (release in `Counts::end`, acquire in
//!   `begin_within`). A request S that gets the room of such a block has therefore seen it come,
//!   and R sees what S has seen (`AcqRel` in `counted`). So there is no such S: all that is kept or
//!   live in the end was live at once, within the limit.

use crate::error::{Error, ErrorKind};
use crate::storage::classes::{class_of, next_classes, Pooling, CLASSES, LINE, PAGE};
use crate::storage::counts::{Counts, Statistics, TagCounts};
use crate::storage::handle::Handle;
use crate::storage::settings::StorageBuilder;
use crate::storage::slots::{List, Slots};
use crate::storage::sync::{AtomicPtr, AtomicUsize, Ordering::*};
use crate::storage::tags::Tag;
use seriatim::{Context, Device};
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::ptr::NonNull;
use std::sync::Arc;

/// Gives out blocks of memory, and keeps those that come back for the next request of their class.
///
/// A handle: clones are the same storage. MXNet's names: `Alloc` is [`alloc`](Storage::alloc),
/// `Free` is dropping a [`Handle`], `DirectFree` is [`Handle::release`], `ReleaseAll` is
/// [`release_all`](Storage::release_all). Handles are counted by their owners, so there is no
/// `SharedIncrementRefCount`.
///
/// All blocks are aligned to 64 bytes, those of `cpu_pinned` to 4,096. Their bytes are initialised:
/// zeros, or what an earlier owner has left.
///
/// ```
/// use seriatim_tensor::storage::Storage;
/// let storage = Storage::builder().limit(1 << 20).build();
/// let block = storage.alloc(1000, Default::default())?;
/// assert_eq!((block.size(), block.capacity()), (1000, 1024));
/// drop(block);
/// let again = storage.alloc(990, Default::default())?;
/// assert_eq!(storage.statistics(Default::default())?.system_calls, 1);
/// assert!(storage.alloc(2 << 20, Default::default()).is_err());
/// # drop(again);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Storage(Arc<Pools>);

#[derive(Debug)]
struct Pools {
    settings: StorageBuilder,
    /// Those of `cpu` and of `cpu_pinned`.
    pools: [Pool; 2],
    records: Slots<Record>,
}

/// A block that nobody has, or nothing.
#[derive(Debug, Default)]
struct Record {
    address: AtomicPtr<u8>,
    size: AtomicUsize,
}

#[derive(Debug)]
struct Pool {
    free: [List; CLASSES],
    pooling: Pooling,
    alignment: usize,
    counts: Counts,
    /// The same, of what has a tag.
    tagged: TagCounts,
    /// Bytes from the system: those of live blocks and of kept ones.
    held: AtomicUsize,
}

impl Pool {
    fn new(pooling: Pooling, alignment: usize) -> Pool {
        Pool {
            free: std::array::from_fn(|_| List::default()),
            pooling,
            alignment,
            counts: Counts::default(),
            tagged: TagCounts::default(),
            held: AtomicUsize::new(0),
        }
    }

    fn layout(&self, size: usize) -> Layout {
        Layout::from_size_align(size, self.alignment).expect("sizes are multiples of a line, and at most 2^46 bytes")
    }
}

/// The number of the pool of a context.
fn pool_of(context: Context) -> Result<usize, Error> {
    match context.device() {
        Device::Cpu => Ok(0),
        Device::CpuPinned => Ok(1),
        _ => {
            let message = format!(
                "a storage has memory of the processor, and none of {context}: Runtime::empty_in, statistics and \
                 release_all of a runtime have that of devices"
            );
            Err(Error::new(ErrorKind::UnsupportedContext, message))
        }
    }
}

impl Storage {
    /// A storage with these settings.
    pub(super) fn of(settings: StorageBuilder) -> Storage {
        let of = |context, alignment| Pool::new(settings.kind_of(context), alignment);
        let pools = [of(Context::cpu(0), LINE), of(Context::cpu_pinned(0), PAGE)];
        Storage(Arc::new(Pools { settings, pools, records: Slots::new() }))
    }

    /// Starts a storage.
    ///
    /// ```
    /// let storage = seriatim_tensor::storage::Storage::builder().build();
    /// # let _ = storage;
    /// ```
    pub fn builder() -> StorageBuilder {
        StorageBuilder::default()
    }

    /// Takes a block of at least so many bytes: a kept one of the class, else, without a limit, a
    /// kept one of up to twice the size, else a new one.
    ///
    /// Worst case: the exchanges that other threads make on the class meanwhile; and without a
    /// block, a call of the system's allocator. At the limit kept blocks are given back to the
    /// system first, the largest ones before others. The call waits for no other thread: while
    /// others are just giving back blocks likewise, these are held beyond the limit.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory), which says what was asked for, what is live and
    /// what the limit is; [`UnsupportedContext`](ErrorKind::UnsupportedContext).
    ///
    /// ```
    /// use seriatim_tensor::storage::Storage;
    /// let storage = Storage::builder().build();
    /// let block = storage.alloc(256, seriatim::Context::cpu_pinned(0))?;
    /// assert_eq!(block.bytes().as_ptr().addr() % 4096, 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn alloc(&self, bytes: usize, context: Context) -> Result<Handle, Error> {
        self.alloc_as(Tag::current(), bytes, context)
    }

    /// The same under a tag, in whatever scope the thread is.
    pub(crate) fn alloc_as(&self, tag: Tag, bytes: usize, context: Context) -> Result<Handle, Error> {
        let number = pool_of(context)?;
        let (pool, pools) = (&self.0.pools[number], &*self.0);
        let tagged = pool.tagged.to_count(tag);
        pool.counts.ask();
        tagged.into_iter().for_each(Counts::ask);
        let Some((class, size)) = class_of(bytes, pool.pooling) else {
            return Err(self.exhausted(bytes, context, "no block is that large"));
        };
        let limit = pools.settings.limit;
        if limit != 0 && !pool.counts.begin_within(limit, size) {
            return Err(self.exhausted(bytes, context, "the limit is reached"));
        }
        // With a limit a block that is too large would take the room of others.
        let larger = next_classes(class, pool.pooling).filter(|_| limit == 0);
        let classes = std::iter::once(class).chain(larger);
        let mut kept = classes.filter_map(|class| Some((class, pool.free[class].pop(&pools.records)?)));
        let (class, size, address) = match kept.next() {
            Some((class, number)) => {
                let record = pools.records.get(number);
                let address = record.address.swap(std::ptr::null_mut(), Relaxed);
                let size = record.size.load(Relaxed);
                pools.records.give(number);
                pools.counted(pool, 0);
                (class, size, NonNull::new(address).expect("a record in a class has a block"))
            }
            None => {
                let Some(made) = pools.ask_system(pool, size) else {
                    return Err(self.exhausted(bytes, context, "the system has no more"));
                };
                tagged.into_iter().for_each(Counts::ask_system);
                (class, size, made)
            }
        };
        if limit == 0 {
            pool.counts.begin(size);
        }
        tagged.into_iter().for_each(|counts| counts.begin(size));
        Ok(Handle { storage: self.clone(), address, size: bytes, capacity: size, class, context, tag })
    }

    #[cold]
    fn exhausted(&self, bytes: usize, context: Context, why: &str) -> Error {
        let (limit, of) = (self.0.settings.limit, self.statistics(context).unwrap_or_default());
        let limit = if limit == 0 { "none".to_owned() } else { format!("{limit} bytes") };
        let Statistics { live, pooled, peak, .. } = of;
        let message = format!(
            "no memory for {bytes} bytes of {context}: {why}; live are {live} bytes, kept {pooled}, at most live were \
             {peak}, the limit is {limit}: drop arrays, wait for operations in flight, or raise the limit"
        );
        Error::new(ErrorKind::OutOfMemory, message)
    }

    /// Gives the kept blocks of a context's kind of memory back to the system.
    ///
    /// Worst case: a call of the system for each.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext).
    ///
    /// ```
    /// use seriatim_tensor::storage::Storage;
    /// let (storage, cpu) = (Storage::builder().build(), seriatim::Context::cpu(0));
    /// drop(storage.alloc(64, cpu)?);
    /// assert_eq!(storage.statistics(cpu)?.pooled, 64);
    /// storage.release_all(cpu)?;
    /// assert_eq!(storage.statistics(cpu)?.pooled, 0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn release_all(&self, context: Context) -> Result<(), Error> {
        self.0.release(&self.0.pools[pool_of(context)?], usize::MAX, 0);
        Ok(())
    }

    /// What it has given out and kept of a context's kind of memory. That of devices is the
    /// engine's: [`Runtime::statistics`](crate::Runtime::statistics). While other threads use the
    /// storage, the numbers may be of different moments.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext).
    ///
    /// ```
    /// let storage = seriatim_tensor::storage::Storage::builder().build();
    /// assert_eq!(storage.statistics(seriatim::Context::cpu(0))?, Default::default());
    /// assert!(storage.statistics(seriatim::Context::gpu(0)).is_err());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn statistics(&self, context: Context) -> Result<Statistics, Error> {
        let pool = &self.0.pools[pool_of(context)?];
        let counted = pool.counts.statistics();
        Ok(Statistics { pooled: pool.held.load(Relaxed).saturating_sub(counted.live), ..counted })
    }

    /// What of it has a tag. Nothing is `pooled`: what is kept is for all requests.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext).
    ///
    /// ```
    /// use seriatim_tensor::storage::{Storage, Tag};
    /// let (storage, cpu) = (Storage::builder().build(), seriatim::Context::cpu(0));
    /// let tag = Tag::new("rows")?;
    /// let blocks = (storage.alloc(640, cpu)?, tag.scope(|| storage.alloc(64, cpu))?);
    /// assert_eq!((storage.statistics(cpu)?.live, storage.statistics_of(tag, cpu)?.live), (704, 64));
    /// # drop(blocks);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn statistics_of(&self, tag: Tag, context: Context) -> Result<Statistics, Error> {
        Ok(self.0.pools[pool_of(context)?].tagged.statistics(tag))
    }

    /// So many bytes of a GPU, as the kind of pool of the context rounds them. The engine has no
    /// finer sizes than those of [`Pooling::Eighths`].
    pub(crate) fn rounded(&self, bytes: usize, context: Context) -> usize {
        match self.0.settings.kind_of(context) {
            Pooling::Eighths | Pooling::None => bytes,
            pooling => class_of(bytes, pooling).map_or(bytes, |(_, size)| size),
        }
    }

    /// Whether memory of a context is kept for later.
    pub(crate) fn keeps(&self, context: Context) -> bool {
        self.0.settings.kind_of(context) != Pooling::None
    }

    /// Takes a block back, to keep it if `keep` and the settings say so.
    pub(super) fn give_back(&self, handle: &mut Handle, keep: bool) {
        let (pool, pools) = (&self.0.pools[usize::from(handle.context.device() != Device::Cpu)], &*self.0);
        let keep = keep && pool.pooling != Pooling::None && pool.held.load(Relaxed) <= pools.settings.most_with_kept();
        let record = keep.then(|| pools.records.take()).flatten();
        match record {
            Some(number) => {
                let record = pools.records.get(number);
                record.address.store(handle.address.as_ptr(), Relaxed);
                record.size.store(handle.capacity, Relaxed);
                // Release: the next owner comes after this one's use of the bytes.
                pool.free[handle.class].push(&pools.records, number);
            }
            // SAFETY: allocated with this layout by `ask_system`, and the handle ends here.
            None => unsafe {
                dealloc(handle.address.as_ptr(), pool.layout(handle.capacity));
                pool.held.fetch_sub(handle.capacity, Relaxed);
            },
        }
        // After the block is in its list, so that who gets its room finds it there.
        pool.counts.end(handle.capacity);
        pool.tagged.to_count(handle.tag).into_iter().for_each(|counts| counts.end(handle.capacity));
    }
}

impl Pools {
    /// A new block. With a limit the caller has counted it as live, which ends here if the system
    /// has no more.
    fn ask_system(&self, pool: &Pool, size: usize) -> Option<NonNull<u8>> {
        self.counted(pool, size);
        pool.counts.ask_system();
        // SAFETY: no size is 0.
        let address = NonNull::new(unsafe { alloc_zeroed(pool.layout(size)) });
        if address.is_none() {
            pool.held.fetch_sub(size, Relaxed);
            if self.settings.limit != 0 {
                pool.counts.end(size);
            }
        }
        address
    }

    /// Counts bytes from the system, none for a kept block, and gives kept blocks back while more
    /// than the limit is held.
    fn counted(&self, pool: &Pool, bytes: usize) {
        let limit = self.settings.limit;
        if limit == 0 {
            if bytes != 0 {
                pool.held.fetch_add(bytes, Relaxed);
            }
            return;
        }
        // AcqRel: the last request to count sees what those before it have seen.
        let held = pool.held.fetch_add(bytes, AcqRel) + bytes;
        self.release(pool, held, limit);
    }

    /// Gives kept blocks back to the system, the largest first, while more than `most` is held.
    fn release(&self, pool: &Pool, mut held: usize, most: usize) {
        for list in pool.free.iter().rev() {
            while held > most {
                let Some(number) = list.pop(&self.records) else { break };
                let record = self.records.get(number);
                let (address, size) = (record.address.swap(std::ptr::null_mut(), Relaxed), record.size.load(Relaxed));
                // SAFETY: allocated with this layout by `ask_system`, and this thread has taken
                // the record, so nobody else has the block.
                unsafe { dealloc(address, pool.layout(size)) };
                held = pool.held.fetch_sub(size, Relaxed) - size;
                self.records.give(number);
            }
        }
    }
}

impl Drop for Pools {
    fn drop(&mut self) {
        self.pools.iter().for_each(|pool| self.release(pool, usize::MAX, 0));
    }
}
