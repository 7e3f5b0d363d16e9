//! Files of the library `safetensors` are read here, and files of ours there.

use safetensors::tensor::{serialize, Dtype, SafeTensors, TensorView};
use seriatim_tensor::{load_safetensors, save_safetensors, DType, ErrorKind, Format, NDArray, Runtime};
use std::collections::HashMap;

const TYPES: [(DType, Dtype); 9] = [
    (DType::F64, Dtype::F64),
    (DType::F32, Dtype::F32),
    (DType::F16, Dtype::F16),
    (DType::Bf16, Dtype::BF16),
    (DType::I64, Dtype::I64),
    (DType::I32, Dtype::I32),
    (DType::I8, Dtype::I8),
    (DType::U8, Dtype::U8),
    (DType::Bool, Dtype::BOOL),
];

const SHAPES: [&[usize]; 6] = [&[], &[1], &[7], &[2, 3], &[0, 4], &[2, 1, 3, 2]];

/// The bytes of the elements of an array, each of its own type.
fn bytes(array: &NDArray) -> Vec<u8> {
    macro_rules! of {
        ($type:ty) => {
            array.to_vec::<$type>().unwrap().iter().flat_map(|value| value.to_le_bytes()).collect()
        };
    }
    match array.dtype() {
        DType::F64 => of!(f64),
        DType::F32 => of!(f32),
        DType::F16 => of!(half::f16),
        DType::Bf16 => of!(half::bf16),
        DType::I64 => of!(i64),
        DType::I32 => of!(i32),
        DType::I8 => of!(i8),
        DType::U8 => of!(u8),
        _ => array.to_vec::<bool>().unwrap().into_iter().map(u8::from).collect(),
    }
}

/// Bytes that are values of a type, of floats finite ones: whether a NaN keeps its bits is another
/// matter.
fn values(dtype: DType, shape: &[usize], seed: usize) -> Vec<u8> {
    let count = shape.iter().product::<usize>() * dtype.size();
    let most = match dtype {
        DType::Bool => 2,
        dtype if dtype.is_float() => 0x70,
        _ => 256,
    };
    (0..count).map(|at| ((at + 1) * (2 * seed + 37) / 7 % most) as u8).collect()
}

#[test]
fn files_of_the_library_are_read() {
    let runtime = Runtime::global().unwrap();
    let mut contents = Vec::new();
    for (number, (dtype, theirs)) in TYPES.into_iter().enumerate() {
        for shape in SHAPES {
            // Names with what JSON writes as an escape.
            let name = format!("layer.{number} \"{shape:?}\" \\ ä\n");
            contents.push((name, dtype, theirs, shape, values(dtype, shape, number)));
        }
    }
    let views = contents
        .iter()
        .map(|(name, _, theirs, shape, data)| (name.as_str(), TensorView::new(*theirs, shape.to_vec(), data).unwrap()));
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    for about in [None, Some(about)] {
        let file = serialize(views.clone(), about).unwrap();
        let read: HashMap<String, NDArray> = Format::Safetensors.decode(runtime, &file).unwrap().into_iter().collect();
        assert_eq!(read.len(), contents.len());
        for (name, dtype, _, shape, data) in &contents {
            let array = &read[name];
            assert_eq!((array.dtype(), array.shape().dims()), (*dtype, *shape), "{name}");
            assert_eq!(bytes(array), *data, "{name} {dtype}");
        }
        // A file that ends early is refused by both.
        for end in [7, file.len() / 2, file.len() - 1] {
            let error = Format::Safetensors.decode(runtime, &file[..end]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadFormat);
            assert!(SafeTensors::deserialize(&file[..end]).is_err());
        }
    }
    // A type that arrays have not.
    let file = serialize([("x", TensorView::new(Dtype::U16, vec![1], &[1, 2]).unwrap())], None).unwrap();
    let error = Format::Safetensors.decode(runtime, &file).unwrap_err();
    assert!(error.kind() == ErrorKind::BadFormat && error.to_string().contains("U16"), "{error}");
}

#[test]
fn the_library_reads_files_of_ours() {
    let runtime = Runtime::global().unwrap();
    let mut arrays = Vec::new();
    for (number, (dtype, theirs)) in TYPES.into_iter().enumerate() {
        for shape in SHAPES {
            let count = shape.iter().product::<usize>();
            let array = runtime.arange(0.0, count as f64, 1.0, DType::F64).unwrap().reshape(shape).unwrap();
            arrays.push((format!("{number} \"{shape:?}\" \\ ä\n"), array.astype(dtype).unwrap(), theirs));
        }
        // A view is written in the order in which it shows its elements.
        let turned = runtime.arange(0.0, 6.0, 1.0, dtype).unwrap().reshape([2, 3]).unwrap().transpose().unwrap();
        arrays.push((format!("{number} turned"), turned, theirs));
    }
    let given: Vec<(&str, &NDArray)> = arrays.iter().map(|(name, array, _)| (name.as_str(), array)).collect();
    let file = Format::Safetensors.encode(&given).unwrap();
    let read = SafeTensors::deserialize(&file).unwrap();
    assert_eq!(read.len(), arrays.len());
    for (name, array, theirs) in &arrays {
        let tensor = read.tensor(name).unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (*theirs, array.shape().dims()), "{name}");
        assert_eq!(tensor.data(), bytes(array), "{name}");
    }
    // What the library makes of it comes back.
    let again = serialize(read.tensors(), None).unwrap();
    for (name, array) in Format::Safetensors.decode(runtime, &again).unwrap() {
        let (_, ours, _) = arrays.iter().find(|(other, ..)| *other == name).unwrap();
        assert_eq!((array.dtype(), array.shape(), bytes(&array)), (ours.dtype(), ours.shape(), bytes(ours)));
    }
}

#[test]
fn files_go_by_the_disk_too() {
    let runtime = Runtime::global().unwrap();
    let [ours, theirs] =
        ["ours", "theirs"].map(|name| std::env::temp_dir().join(format!("seriatim-{name}-{}.st", std::process::id())));
    let x = runtime.from_slice(&[1.5f32, -2.0, 3.25], [3]).unwrap();
    save_safetensors(&ours, &[("x", &x)]).unwrap();
    let file = std::fs::read(&ours).unwrap();
    let read = SafeTensors::deserialize(&file).unwrap();
    safetensors::tensor::serialize_to_file(read.tensors(), None, &theirs).unwrap();
    let back = load_safetensors(runtime, &theirs).unwrap();
    assert_eq!((back[0].0.as_str(), back[0].1.to_vec::<f32>().unwrap()), ("x", vec![1.5, -2.0, 3.25]));
    [ours, theirs].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}
