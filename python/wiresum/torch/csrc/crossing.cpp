#include "backend.h"

#include "remaining.h"

namespace wiresum {

void Crossing::go_on_without(std::shared_ptr<const Remaining> remaining,
                             c10::intrusive_ptr<c10d::Backend> inner,
                             c10::intrusive_ptr<c10d::Backend> fallback,
                             c10::intrusive_ptr<c10d::Backend> afterwards) {
    const auto of = [&](c10::intrusive_ptr<c10d::Backend> members) -> c10::intrusive_ptr<c10d::Backend> {
        return c10::make_intrusive<RemainingGloo>(std::move(members), remaining, rank);
    };
    going_over->go_on_without(of(std::move(afterwards)));
    next = GroupContext::Groups{of(std::move(inner)), of(std::move(fallback)), remaining};
}

// What Gloo had of the user's waits for who is lost, so it ends now.
void Crossing::leave() {
    if (next) {
        const GroupContext::Groups before = group->groups();
        group->note_loss(next->remaining->lost, false);
        group->set_groups(std::move(*next));
        next.reset();
        before.inner->abort();
    }
    submissions->leave(going_over);
}

void Crossing::lose(const std::string &why) const { group->lose(why); }

} // namespace wiresum
