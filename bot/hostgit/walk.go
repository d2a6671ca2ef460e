package hostgit

import (
	"math"
	"strconv"
)

const (
	maxDepth = 512  // directories in a path
	maxPath  = 4096 // bytes of a path
	maxLink  = 4096 // bytes of a symbolic link
)

// walker measures trees and judges what commits add. Whatever it learns of a tree it
// keeps under the tree's id: a tree that holds itself a thousandfold by repeating
// few objects costs as much as those few.
type walker struct {
	o        *objects
	l        Limits
	sizes    map[oid]int64
	tallies  map[oid]tally
	verdicts map[oid]verdict
	fresh    int64 // unique entries seen since the current measure began

	entries, bytes int64 // added so far
}

// tally is what a tree expands to.
type tally struct {
	entries, bytes int64
	depth, path    int
}

// verdict is what is wrong with a tree when all of it is new.
type verdict struct {
	at, why string // "" when nothing is
	climb   int    // levels above the tree that a symbolic link in it reaches
	climber string
}

func newWalker(o *objects, l Limits) *walker {
	return &walker{o: o, l: l, sizes: map[oid]int64{}, tallies: map[oid]tally{}, verdicts: map[oid]verdict{}}
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (w *walker) tree(id oid) ([]entry, error) {
	b, err := w.o.read("tree", id)
	if err != nil {
		return nil, err
	}
	return parseTree(b)
}

// measure expands the tree of one commit and holds it against the limits.
func (w *walker) measure(root oid) (tally, error) {
	w.fresh = 0
	t, err := w.tally(root, 0)
	if err == nil && (t.entries > w.l.TreeEntries || t.bytes > w.l.TreeBytes) {
		err = w.overTree()
	}
	return t, err
}

func (w *walker) overTree() error {
	return tooBig("one of its trees has more than " + strconv.FormatInt(w.l.TreeEntries, 10) + " entries or " +
		strconv.FormatInt(w.l.TreeBytes>>20, 10) + " MiB")
}

func (w *walker) tally(id oid, level int) (tally, error) {
	if t, ok := w.tallies[id]; ok {
		return t, nil
	}
	if level > maxDepth {
		return tally{}, tooBig("one of its trees is nested too deeply")
	}
	entries, err := w.tree(id)
	if err != nil {
		return tally{}, err
	}
	if w.fresh = plus(w.fresh, int64(len(entries))); w.fresh > w.l.TreeEntries {
		return tally{}, w.overTree()
	}
	if err := w.learnSizes(entries); err != nil {
		return tally{}, err
	}
	t := tally{entries: int64(len(entries))}
	for _, e := range entries {
		t.path = max(t.path, len(e.name))
		switch e.mode {
		case modeSub:
		case modeTree:
			sub, err := w.tally(e.id, level+1)
			if err != nil {
				return tally{}, err
			}
			t.entries, t.bytes = plus(t.entries, sub.entries), plus(t.bytes, sub.bytes)
			t.depth, t.path = max(t.depth, 1+sub.depth), max(t.path, len(e.name)+1+sub.path)
		default:
			t.bytes = plus(t.bytes, w.sizes[e.id])
		}
	}
	if t.depth > maxDepth || t.path > maxPath {
		return tally{}, tooBig("one of its trees is nested too deeply")
	}
	w.tallies[id] = t
	return t, nil
}

func (w *walker) learnSizes(entries []entry) error {
	var ask []oid
	for _, e := range entries {
		if e.mode == modeTree || e.mode == modeSub {
			continue
		}
		if _, ok := w.sizes[e.id]; !ok {
			w.sizes[e.id] = 0
			ask = append(ask, e.id)
		}
	}
	sizes, err := w.o.sizes(ask)
	if err != nil {
		return err
	}
	for i, id := range ask {
		w.sizes[id] = sizes[i]
	}
	return nil
}

// added counts and judges what is in tree now and was not, or was different, in
// tree old. Both were measured. old is nil for a commit without a parent.
func (w *walker) added(old *oid, now oid, path string, level int) error {
	if old != nil && *old == now {
		return nil
	}
	had := map[string]entry{}
	if old != nil {
		before, err := w.tree(*old)
		if err != nil {
			return err
		}
		for _, e := range before {
			had[e.name] = e
		}
	}
	entries, err := w.tree(now)
	if err != nil {
		return err
	}
	fresh := map[string]bool{}
	for _, e := range entries {
		was, there := had[e.name]
		if there && was == e {
			continue
		}
		if !there {
			fresh[e.name] = true
		}
		w.entries = plus(w.entries, 1)
		if err := w.one(e, was, there, path, level); err != nil {
			return err
		}
		if w.entries > w.l.AddedEntries || w.bytes > w.l.AddedBytes {
			return tooBig("its commits add more than " + strconv.FormatInt(w.l.AddedEntries, 10) + " entries or " +
				strconv.FormatInt(w.l.AddedBytes>>20, 10) + " MiB")
		}
	}
	if name := collision(entries, fresh); name != "" {
		return refuse(quoted(path+name)+" differs only in case from a file beside it", nil)
	}
	return nil
}

// one counts and judges one entry that is new or different.
func (w *walker) one(e, was entry, there bool, path string, level int) error {
	if e.mode == modeTree && there && was.mode == modeTree {
		return w.added(&was.id, e.id, path+e.name+"/", level+1)
	}
	why, up, err := w.judge(e)
	if err != nil {
		return err
	}
	at := path + e.name
	if e.mode == modeTree && why == "" {
		t, err := w.tally(e.id, level+1)
		if err != nil {
			return err
		}
		v, err := w.verdict(e.id)
		if err != nil {
			return err
		}
		w.entries, w.bytes = plus(w.entries, t.entries), plus(w.bytes, t.bytes)
		if v.why != "" {
			at, why = at+"/"+v.at, v.why
		} else if v.climb > level+1 {
			at, up = at+"/"+v.climber, v.climb
		}
	} else {
		w.bytes = plus(w.bytes, w.sizes[e.id])
	}
	if why == "" && up > level {
		why = "is a symbolic link out of the repository"
	}
	if why != "" {
		return refuse(quoted(at)+" "+why, nil)
	}
	return nil
}

// judge says why e may not be new, or how far up it leads when it is a link.
func (w *walker) judge(e entry) (why string, up int, err error) {
	if why := badName(e.name); why != "" {
		return why, 0, nil
	}
	switch e.mode {
	case modeFile, modeExec, modeTree:
		return "", 0, nil
	case modeSub:
		return "is a submodule, which is not carried", 0, nil
	case modeLink:
		if w.sizes[e.id] > maxLink {
			return "is a symbolic link that is too long", 0, nil
		}
		target, err := w.o.read("blob", e.id)
		if err != nil {
			return "", 0, err
		}
		up, why := climb(string(target))
		return why, up, nil
	default:
		return "has the mode " + quoted(e.mode) + ", which is not carried", 0, nil
	}
}

// verdict judges a tree all of which is new. It was tallied.
func (w *walker) verdict(id oid) (verdict, error) {
	if v, ok := w.verdicts[id]; ok {
		return v, nil
	}
	entries, err := w.tree(id)
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	fresh := map[string]bool{}
	for _, e := range entries {
		fresh[e.name] = true
		why, up, err := w.judge(e)
		if err != nil {
			return verdict{}, err
		}
		at := e.name
		if e.mode == modeTree && why == "" {
			sub, err := w.verdict(e.id)
			if err != nil {
				return verdict{}, err
			}
			at, why, up = e.name+"/"+sub.at, sub.why, sub.climb-1
			if sub.why == "" {
				at = e.name + "/" + sub.climber
			}
		}
		if why != "" && v.why == "" {
			v.at, v.why = at, why
		}
		if up > v.climb {
			v.climb, v.climber = up, at
		}
	}
	if name := collision(entries, fresh); name != "" && v.why == "" {
		v.at, v.why = name, "differs only in case from a file beside it"
	}
	w.verdicts[id] = v
	return v, nil
}
