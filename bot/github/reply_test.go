package github_test

import (
	"strings"
	"testing"

	"nod"
)

func (w *world) place() nod.Place {
	return nod.Place{Repo: w.repo(), Installation: w.task.Installation, Issue: w.task.Issue}
}

func TestReactionAndReplyAreMadeOnce(t *testing.T) {
	w := newWorld(t)
	id, err := w.sim.Comment("out", full, w.task.Issue, "/nod run")
	w.ok(err)
	react := w.effect(nod.EffectReact, nod.React{Place: w.place(), Comment: id, Content: nod.ReactRefused})
	reply := w.effect(nod.EffectReply, nod.Reply{Place: w.place(), Marker: "<!-- nod:reply:0123456789abcdef -->", Body: "**nod** did not do that."})
	// As it is performed: of no task, only of a place.
	w.task = nod.Task{Repo: w.repo(), Installation: w.task.Installation, Issue: w.task.Issue}
	for range 2 {
		var nothing struct{}
		w.perform(w.client.Reactions(), react, &nothing)
		var made nod.CommentOutcome
		w.perform(w.client.Replies(), reply, &made)
	}
	got := w.view(w.task.Issue).Comments
	if len(got) != 2 || len(got[0].Reactions) != 1 || got[0].Reactions[0] != "nod-demo[bot] confused" || !strings.HasSuffix(got[1].Body, "did not do that.") {
		t.Errorf("got %+v", got)
	}
	found, err := w.client.Replies().Lookup(t.Context(), w.task, reply)
	if err != nil || found == nil {
		t.Errorf("lookup: %s, %v", found, err)
	}
	gone := w.effect(nod.EffectReact, nod.React{Place: w.place(), Comment: 999, Content: nod.ReactObeyed})
	_, err = w.client.Reactions().Perform(t.Context(), w.task, gone)
	w.wantCode(err, nod.NotFound)
}
