//! Turns of tenants outside of limits: in which order a worker takes up what it has received, and what leaves a line.

use super::guard::Guard;
use crate::ports::{Limited, PortError, Protection};
use redial_core::distinct::distinct;
use redial_core::identity::Tenant;
use redial_core::protection::Rank;
use redial_core::protection::turns::{Turns, Waiting};
use redial_core::time::Timestamp;

/// A tenant's own, in the order in which they came.
type Own<T> = (Tenant, Vec<T>);

impl Guard {
    /// These in the order of their turns: the urgent first, then tenants by their weights, as far as they were read.
    pub fn in_turn<T>(&self, items: Vec<T>, of: impl Fn(&T) -> (Rank, &Tenant)) -> Vec<T> {
        if items.windows(2).all(|two| of(&two[0]) == of(&two[1])) {
            return items;
        }
        let mut ranks = Rank::ALL.map(|rank| (rank, Vec::<Own<T>>::new()));
        let all = items.len();
        for item in items {
            let (rank, tenant) = of(&item);
            let of_rank = ranks.iter_mut().find(|(other, _)| *other == rank);
            let (_, own) = of_rank.expect("invariant: `ALL` has each rank");
            match own.iter().position(|(other, _)| other == tenant) {
                Some(at) => own[at].1.push(item),
                None => own.push((tenant.clone(), vec![item])),
            }
        }
        let mut ordered = Vec::with_capacity(all);
        for (_, own) in ranks {
            let waiting: Vec<Waiting<Tenant>> = {
                let known = self.known();
                let weight = |tenant: &Tenant| known.weight(tenant);
                let of = |(who, items): &Own<T>| Waiting {
                    who: who.clone(),
                    weight: weight(who),
                    number: items.len(),
                };
                own.iter().map(of).collect()
            };
            let mut own: Vec<_> = own.into_iter().map(|(_, items)| items.into_iter()).collect();
            let order = Turns::default().order(&waiting).into_iter();
            ordered.extend(order.filter_map(|turn| own[turn].next()));
        }
        ordered
    }

    /// Reads what these tenants are allowed, as far as it is not known well enough.
    pub async fn follow<'t, P: Protection>(
        &self,
        store: &P,
        tenants: impl Iterator<Item = &'t Tenant>,
        now: Timestamp,
    ) -> Option<PortError> {
        let tenants: Vec<Limited> = distinct(tenants).into_iter().cloned().map(Limited::Tenant).collect();
        self.refresh(store, std::iter::empty(), &tenants, now).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redial_core::share::{Share, Weight};

    fn tenant(name: &str) -> Tenant {
        Tenant::parse(name).expect("valid")
    }

    fn in_turn(guard: &Guard, items: &[(Rank, &str)]) -> Vec<usize> {
        let items: Vec<(usize, Rank, Tenant)> =
            items.iter().enumerate().map(|(at, (rank, name))| (at, *rank, tenant(name))).collect();
        guard.in_turn(items, |(_, rank, tenant)| (*rank, tenant)).into_iter().map(|(at, _, _)| at).collect()
    }

    #[test]
    fn the_urgent_are_taken_up_first_then_tenants_by_their_weights() {
        use Rank::{First, Last, Middle};
        let guard = Guard::default();
        assert!(in_turn(&guard, &[]).is_empty());
        assert_eq!(in_turn(&guard, &[(Last, "a"), (First, "a"), (Last, "a")]), [1, 0, 2]);
        let items = [
            (Middle, "loud"),
            (Middle, "loud"),
            (Middle, "loud"),
            (Middle, "loud"),
            (Middle, "paid"),
            (Middle, "paid"),
            (First, "loud"),
        ];
        assert_eq!(in_turn(&guard, &items), [6, 0, 4, 1, 5, 2, 3]);
        let share = Share { weight: Weight::parse("2").ok(), ..Share::default() };
        let paid = Limited::Tenant(tenant("paid"));
        guard.known().limits.insert(paid, (share.into(), Timestamp::default()));
        assert_eq!(in_turn(&guard, &items), [6, 4, 0, 5, 1, 2, 3]);
    }
}
