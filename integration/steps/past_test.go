package steps

import "testing"

// Cases that failed once, whatever -every says.
var past = []struct {
	scene *[]scene
	name  string
	frame frame
	fault string
}{
	// The library registered the watch on the lock node again after the reconnect,
	// for a request that had left meanwhile: it stayed until the lock was used again.
	{&scenes, "downgrade", frame{"C", "getChildren users", 6}, "cancel-drop-request"},
	{&scenes, "downgrade", frame{"C", "getChildren users", 6}, "cancel-drop-reply"},
}

func TestCasesThatFailedOnce(t *testing.T) {
	for _, c := range past {
		t.Run(slug(c.name)+"/"+c.frame.slug()+"/"+c.fault, func(t *testing.T) {
			k := &strike{fault: faultNamed(t, c.fault), frame: c.frame}
			play(t, sceneNamed(t, *c.scene, c.name), 0, k)
			if !k.happened() {
				t.Errorf("there is no %s in this scene any more: find it another one", c.frame)
			}
		})
	}
}

func sceneNamed(t *testing.T, list []scene, name string) *scene {
	t.Helper()
	for i := range list {
		if list[i].name == name {
			return &list[i]
		}
	}
	t.Fatalf("there is no scene %q", name)
	return nil
}

func faultNamed(t *testing.T, name string) *fault {
	t.Helper()
	for i := range faults {
		if faults[i].name == name {
			return &faults[i]
		}
	}
	t.Fatalf("there is no fault %q", name)
	return nil
}
