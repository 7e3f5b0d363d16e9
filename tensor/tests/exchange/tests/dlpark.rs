//! Arrays go by DLPack to `ndarray` and back, without a copy: `dlpark` is what that library has for
//! it, and checks what it is given.

use dlpark::allocation::dynamic::Initialized;
use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use dlpark::{legacy, versioned, DlpackElement, DlpackFlags, TryFromDlpack};
use half::{bf16, f16};
use ndarray::{Array, ArrayD, ArrayViewD, ArrayViewMutD, IxDyn, ShapeBuilder};
use seriatim_tensor::dlpack::Tensor;
use seriatim_tensor::{Element, ErrorKind, NDArray, Number, Runtime};
use std::ptr::NonNull;

/// What is lent to the library, as its handle of DLPack 1.
fn lend(lent: Tensor) -> versioned::Dlpack {
    // SAFETY: the structure is given away, as DLPack describes it.
    unsafe { versioned::Dlpack::from_raw(lent.into_raw().as_ptr().cast()) }.unwrap()
}

/// What the library lends.
fn take(lent: versioned::Dlpack) -> Tensor {
    let raw = NonNull::new(lent.into_raw()).unwrap();
    // SAFETY: the structure is given away, as DLPack describes it, and its array is Send.
    unsafe { Tensor::from_raw(raw.cast()) }
}

/// An array of the library, as its handle of DLPack 1.
fn lent_by_library<T: DlpackElement + Send>(array: ArrayD<T>) -> versioned::Dlpack {
    let made: Initialized<DLManagedTensorVersioned> = Box::new(array).try_into().unwrap();
    // SAFETY: the array is whole, and goes with the structure.
    unsafe { made.finish() }
}

fn numbers<T: Element>(count: usize) -> Vec<T> {
    (0..count).map(|at| T::from_number(Number::Whole(at as i64 * 3 % 2))).collect()
}

fn there_and_back<T: Element + DlpackElement + PartialEq>() {
    let runtime = Runtime::global().unwrap();
    for shape in [&[][..], &[6], &[2, 3], &[3, 1, 2], &[0, 2]] {
        let count = shape.iter().product();
        // Ours, as a view of the library; an operation on a copy of it gives what the library says.
        let x = runtime.from_slice(&numbers::<T>(count), shape).unwrap();
        for (array, turned) in [(x.clone(), false), (x.transpose().unwrap(), true)] {
            let lent = lend(array.to_dlpack().unwrap());
            assert!(lent.flags().contains(DlpackFlags::READ_ONLY));
            // SAFETY: nobody changes the array while it is lent.
            let view = unsafe { ArrayViewD::<T>::try_from_dlpack(&lent, ()) }.unwrap();
            let expected = Array::from_shape_vec(IxDyn(shape), numbers::<T>(count)).unwrap();
            let expected = if turned { expected.reversed_axes() } else { expected };
            assert!(view == expected, "{} {shape:?}", <T as Element>::DTYPE);
        }
        // Theirs, in the order of C and of Fortran.
        for fortran in [false, true] {
            let array = Array::from_shape_vec(IxDyn(shape).set_f(fortran), numbers::<T>(count)).unwrap();
            let expected: Vec<T> = array.iter().copied().collect();
            let y = runtime.from_dlpack(take(lent_by_library(array))).unwrap();
            assert_eq!((y.dtype(), y.shape().dims()), (<T as Element>::DTYPE, shape));
            assert!(y.to_vec::<T>().unwrap() == expected, "{} {shape:?}", <T as Element>::DTYPE);
        }
    }
}

#[test]
fn arrays_of_every_type_are_views_of_ndarray_and_come_back() {
    there_and_back::<f32>();
    there_and_back::<f64>();
    there_and_back::<f16>();
    there_and_back::<bf16>();
    there_and_back::<i8>();
    there_and_back::<u8>();
    there_and_back::<i32>();
    there_and_back::<i64>();
}

#[test]
fn what_one_side_writes_the_other_reads() {
    let runtime = Runtime::global().unwrap();
    let x = runtime.from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).unwrap();
    let mut lent = lend(x.to_dlpack_mut().unwrap());
    // Pushed now, this comes behind the end of the loan.
    x.mul_scalar_assign(10.0).unwrap();
    // SAFETY: the loan is the only use of the memory until it ends.
    let mut view = unsafe { ArrayViewMutD::<f32>::try_from_dlpack(&mut lent, ()) }.unwrap();
    view[[1, 0]] = 0.5;
    view.swap_axes(0, 1);
    drop(lent);
    assert_eq!(x.to_vec::<f32>().unwrap(), [10.0, 20.0, 30.0, 5.0, 50.0, 60.0]);
    // Theirs is changed in place, and given on to a third one, where it still lies.
    let array = ArrayD::from_shape_vec(IxDyn(&[3]), vec![1.0f64, 2.0, 3.0]).unwrap();
    let address = array.as_ptr();
    let y = runtime.from_dlpack(take(lent_by_library(array))).unwrap();
    y.add_assign(&y.square().unwrap()).unwrap();
    let lent = lend(y.to_dlpack().unwrap());
    // SAFETY: nobody changes the array while it is lent.
    let view = unsafe { ArrayViewD::<f64>::try_from_dlpack(&lent, ()) }.unwrap();
    assert_eq!((view.as_ptr(), view.iter().copied().collect::<Vec<f64>>()), (address, vec![2.0, 6.0, 12.0]));
}

#[test]
fn what_may_not_be_written_is_refused_by_both() {
    let runtime = Runtime::global().unwrap();
    let x = runtime.from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let mut lent = lend(x.to_dlpack().unwrap());
    // SAFETY: nobody changes the array while it is lent.
    assert!(unsafe { ArrayViewMutD::<f32>::try_from_dlpack(&mut lent, ()) }.is_err());
    // SAFETY: as above.
    assert!(unsafe { ArrayViewD::<f64>::try_from_dlpack(&lent, ()) }.is_err());
    let array = ArrayD::from_shape_vec(IxDyn(&[2]), vec![1i32, 2]).unwrap();
    let mut made: Initialized<DLManagedTensorVersioned> = Box::new(array).try_into().unwrap();
    made.set_flags(DlpackFlags::READ_ONLY).unwrap();
    // SAFETY: the array is whole, and goes with the structure.
    let y = runtime.from_dlpack(take(unsafe { made.finish() })).unwrap();
    assert_eq!(y.to_vec::<i32>().unwrap(), [1, 2]);
    y.add_scalar_assign(1.0).unwrap();
    assert_eq!(y.wait_to_read().unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn structures_before_version_1_go_both_ways() {
    let runtime = Runtime::global().unwrap();
    let x = runtime.from_slice(&[1i64, 2, 3, 4], [2, 2]).unwrap();
    let raw = x.to_dlpack_mut().unwrap().into_raw_unversioned().unwrap();
    // SAFETY: the structure is given away, as DLPack describes it.
    let lent = unsafe { legacy::Dlpack::from_raw(raw.as_ptr().cast()) }.unwrap();
    // SAFETY: nobody changes the array while it is lent.
    let view = unsafe { ArrayViewD::<i64>::try_from_dlpack(&lent, ()) }.unwrap();
    assert_eq!(view.sum(), 10);
    drop(lent);
    let array = ArrayD::from_shape_vec(IxDyn(&[2]), vec![1.5f32, 2.5]).unwrap();
    let made: Initialized<DLManagedTensor> = Box::new(array).try_into().unwrap();
    // SAFETY: the array is whole, and goes with the structure.
    let raw = NonNull::new(unsafe { made.finish() }.into_raw()).unwrap();
    // SAFETY: the structure is given away, as DLPack describes it, and its array is Send.
    let y: NDArray = runtime.from_dlpack(unsafe { Tensor::from_raw_unversioned(raw.cast()) }).unwrap();
    assert_eq!(y.square().unwrap().to_vec::<f32>().unwrap(), [2.25, 6.25]);
}
