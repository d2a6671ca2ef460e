// Package agenttest holds doubles of what drives and what is driven: the scripted
// agent, a real process that speaks Claude Code's line protocol and does what a
// small script says, and Host, an Executor over plain host processes. The
// conformance suite that every adapter passes is package conformance below it;
// the mock of the model API is package anthropicmock.
//
// The scripted agent is part of the nod binary, for the demo and for tests of
// everything around an agent. It asks before every step that has an effect. Host
// isolates nothing and must never run anything but tests and the demo.
package agenttest
