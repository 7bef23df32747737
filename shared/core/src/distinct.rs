//! Each of some things once. A `BTreeSet` or `BTreeMap` that is collected brings a sort of its own into the executable, 6 KB for each type;
//! these bring none.

/// In the order in which they first came. For the few that a batch has: each is compared with those before it.
pub fn distinct<T: PartialEq>(things: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for thing in things {
        if !distinct.contains(&thing) {
            distinct.push(thing);
        }
    }
    distinct
}

/// A set or map, to which they are added one by one.
pub fn one_by_one<C: Default + Extend<T>, T>(things: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(things);
    all
}

#[cfg(test)]
mod tests {
    use super::distinct;

    #[test]
    fn each_is_there_once_where_it_first_came() {
        assert_eq!(distinct([3, 1, 3, 2, 1]), [3, 1, 2]);
        assert!(distinct::<u8>([]).is_empty());
    }
}
