package zkdiff

// returner invents clients that set watches, hang up, and come back with their watches after others have changed
// something, or have changed it and changed it back.
type returner struct {
	*generator
	plan []Step
}

func newReturner(seed uint64) *returner { return &returner{generator: newGenerator(seed, sessions)} }

// next takes the next step of a plan.
func (r *returner) next() Step {
	if len(r.plan) == 0 {
		r.steps += 10
		r.plan = r.round()
	}
	step := r.plan[0]
	r.plan = r.plan[1:]
	return step
}

// round is the story of one absence.
func (r *returner) round() []Step {
	client := r.IntN(r.clients)
	paths := [][]string{{}, {}, {}, {}, {}}
	var plan []Step
	for range 1 + r.IntN(6) {
		path := r.treePath()
		kind := r.IntN(len(paths))
		paths[kind] = append(paths[kind], path)
		step := Step{On: client, Path: path, Watch: true}
		switch kind {
		case 0:
			step.Do = GetData
		case 1:
			step.Do = Exists
		case 2:
			step.Do = GetChildren
		default:
			step = Step{On: client, Do: AddWatch, Path: path, Mode: int32(kind - 3)}
		}
		plan = append(plan, step)
	}
	plan = append(plan, Step{On: client, Do: Drop})
	for range r.IntN(6) {
		plan = append(plan, r.changes((client+1)%r.clients)...)
	}
	back := Step{On: client, Do: SetWatches2, Paths: paths, Back: -1}
	if r.chance(300) {
		back.Do, back.Paths = SetWatches, paths[:3]
	}
	plan = append(plan, back)
	// What is watched now shows in the notifications of further changes.
	for range 2 + r.IntN(4) {
		plan = append(plan, r.changes((client+2)%r.clients)...)
	}
	return plan
}

func (r *returner) changes(by int) []Step {
	path := r.treePath()
	create := Step{On: by, Do: Create, Path: path, ACL: everybody}
	remove := Step{On: by, Do: Delete, Path: path, Version: -1}
	write := Step{On: by, Do: SetData, Path: path, Data: r.data(), Version: -1}
	switch r.IntN(6) {
	case 0:
		return []Step{remove}
	case 1:
		return []Step{write}
	case 2:
		return []Step{create, remove}
	case 3:
		return []Step{remove, create}
	default:
		return []Step{create, write}
	}
}
