//! Compares pictures of pages with those of the repository.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::page::Page;

/// Environment variable: write the pictures of the documents instead of comparing only.
const WRITE: &str = "DRYDOCK_WRITE_DOCS";

/// Draws both pictures small, so that the shapes of letters of another font do not count, and compares the colors.
const COMPARE: &str = "(async () => {
  const load = (data) => new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error('no picture'));
    image.src = 'data:image/png;base64,' + data;
  });
  const [one, other] = [await load(ONE), await load(OTHER)];
  if (one.width !== other.width || one.height !== other.height) {
    return { size: `${one.width} x ${one.height} and ${other.width} x ${other.height}` };
  }
  const [width, height] = [Math.ceil(one.width / 10), Math.ceil(one.height / 10)];
  const pixels = (image) => {
    const context = new OffscreenCanvas(width, height).getContext('2d');
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, 0, 0, width, height);
    return context.getImageData(0, 0, width, height).data;
  };
  const [first, second] = [pixels(one), pixels(other)];
  let [sum, far] = [0, 0];
  for (let at = 0; at < first.length; at += 4) {
    const by = Math.max(...[0, 1, 2].map((channel) => Math.abs(first[at + channel] - second[at + channel])));
    sum += by;
    if (by > 48) far += 1;
  }
  return { mean: sum / (width * height) / 255, far: far / (width * height) };
})()";

/// How much two pictures differ.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// They have different sizes.
    Size(String),
    /// The mean difference of the colors, and the part of the area whose color is another one; from 0 to 1.
    Colors {
        /// The mean.
        mean: f64,
        /// The part of the area.
        far: f64,
    },
}

impl Difference {
    /// Whether a person would call them the same picture: another font and another machine are tolerated, another theme, a
    /// missing part and a moved part are not.
    pub fn is_small(&self) -> bool {
        matches!(self, Self::Colors { mean, far } if *mean < 0.03 && *far < 0.02)
    }
}

/// Compares the visible part of a page with a PNG file.
///
/// # Panics
/// When the file cannot be read.
pub fn difference_from_file(page: &Page, helper: &Page, file: &Path) -> Difference {
    let committed = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    difference(helper, &STANDARD.encode(committed), &page.screenshot())
}

/// Compares two pictures, both PNG in Base64, in a page, which decodes them.
fn difference(page: &Page, one: &str, other: &str) -> Difference {
    let found = page.eval(
        &COMPARE
            .replace("ONE", &format!("{one:?}"))
            .replace("OTHER", &format!("{other:?}")),
    );
    match found.get("size") {
        Some(Value::String(sizes)) => Difference::Size(sizes.clone()),
        _ => Difference::Colors {
            mean: found["mean"].as_f64().unwrap_or(1.0),
            far: found["far"].as_f64().unwrap_or(1.0),
        },
    }
}

/// Compares the visible part of a page with a PNG file of the repository. With `DRYDOCK_WRITE_DOCS` set, a file that differs
/// is replaced. `helper` decodes the pictures: an empty page.
///
/// # Panics
/// When they differ.
pub fn compare_with_file(page: &Page, helper: &Page, file: &Path) {
    let now = page.screenshot();
    let committed = std::fs::read(file).map(|bytes| STANDARD.encode(bytes)).ok();
    let found = committed.map(|committed| difference(helper, &committed, &now));
    if found.as_ref().is_some_and(Difference::is_small) {
        return;
    }
    if std::env::var_os(WRITE).is_some() {
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder for pictures");
        std::fs::write(file, STANDARD.decode(now).expect("Base64")).expect("a picture is written");
        return;
    }
    panic!(
        "{} differs from the page: {found:?}; {WRITE}=1 writes it",
        file.display()
    );
}
