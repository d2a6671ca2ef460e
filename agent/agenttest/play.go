package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// What a step ends with.
type flow int

const (
	onward flow = iota
	stopTurn
	aborted
	failed
	exits
)

const (
	outputCap = 30_000 // characters of a command's output that the agent sees
	turnCost  = 0.001  // made up
)

// answer is a permission request and, once it came, its answer.
type answer struct {
	came    bool
	allowed bool
	input   json.RawMessage
	why     string
}

// play plays one turn; it returns an exit code when the script ends the process.
func (p *player) play() *int {
	p.answers, p.said, p.code, p.told = map[string]*answer{}, "", 0, 0
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "."
	}
	p.put(map[string]any{"type": "system", "subtype": "init", "cwd": cwd, "session_id": p.session, "tools": []string{"Bash", "Write"},
		"mcp_servers": []any{}, "slash_commands": []any{}, "skills": []any{}, "model": "script", "permissionMode": "default",
		"claude_code_version": scriptedVersion})
	steps, first := p.script.Resume, false
	if p.done.Next < len(p.script.Steps) {
		steps, first = p.script.Steps[p.done.Next:], true
	}
	played := 0
	for _, step := range steps {
		p.echo()
		f, exit := p.step(step, first)
		played++
		switch f {
		case aborted:
			p.result(map[string]any{"subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_tools"}, played)
			return nil
		case failed:
			p.code = 1
			body := map[string]any{"subtype": "success", "is_error": true, "result": p.said, "terminal_reason": "completed"}
			if step.Status != 0 {
				body["api_error_status"], body["terminal_reason"] = step.Status, "api_error"
			}
			p.result(body, played)
			return nil
		case exits:
			return exit
		case stopTurn:
			p.result(map[string]any{"subtype": "success", "is_error": false, "result": p.said, "terminal_reason": "completed"}, played)
			return nil
		}
	}
	p.echo()
	if p.said == "" {
		p.said = "Done."
	}
	p.result(map[string]any{"subtype": "success", "is_error": false, "result": p.said, "terminal_reason": "completed"}, played)
	return nil
}

// result ends the turn.
func (p *player) result(body map[string]any, steps int) {
	p.done.Cost += turnCost
	if err := p.save(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	body["type"], body["session_id"], body["num_turns"], body["result_index"] = "result", p.session, steps, p.results
	body["total_cost_usd"], body["usage"] = p.done.Cost, map[string]int{"input_tokens": 10 * steps, "output_tokens": steps}
	body["user_message_uuids"], body["permission_denials"], body["queued_turn_count"] = p.messages, []any{}, 0
	p.put(body)
	p.results++
	p.messages, p.heard = nil, nil
}

// echo says back what was said to the agent while the turn ran.
func (p *player) echo() {
	for _, h := range p.heard {
		p.say("Heard: " + h)
	}
	p.heard = nil
}

func (p *player) say(text string) {
	p.said = text
	p.assistant(map[string]any{"type": "text", "text": text})
}

func (p *player) assistant(block map[string]any) {
	p.put(map[string]any{"type": "assistant", "session_id": p.session, "parent_tool_use_id": nil,
		"message": map[string]any{"id": "msg_" + newID(), "role": "assistant", "content": []any{block}}})
}

func (p *player) step(s Step, count bool) (flow, *int) {
	begin := func() error {
		if count {
			p.done.Next++
		}
		return p.save()
	}
	if len(s.Together) > 0 {
		return p.tools(s.Together, begin), nil
	}
	if s.Bash != "" || s.Write != "" {
		return p.tools([]Step{s}, begin), nil
	}
	if err := begin(); err != nil {
		p.said = err.Error()
		return failed, nil
	}
	switch {
	case s.Say != "":
		p.say(s.Say)
	case s.Line != "":
		_, _ = p.out.Write([]byte(s.Line + "\n"))
	case s.Fail != "":
		p.said = s.Fail
		return failed, nil
	case s.Exit != nil:
		return exits, s.Exit
	case s.Await:
		return p.wait(nil, p.awaited), nil
	case s.Sleep != "":
		d, err := time.ParseDuration(s.Sleep)
		if err != nil {
			p.said = err.Error()
			return failed, nil
		}
		rang := make(chan struct{})
		stop := time.AfterFunc(d, func() { close(rang) })
		defer stop.Stop()
		return p.wait(rang, func() bool { return false }), nil
	}
	return onward, nil
}

// wait handles the host's lines until done is closed or enough says so. It
// returns aborted when the host interrupted.
func (p *player) wait(done <-chan struct{}, enough func() bool) flow {
	in := p.in
	for !enough() {
		if p.closed {
			in = nil // a closed channel would spin
		}
		select {
		case <-done:
			return onward
		case m, ok := <-in:
			switch {
			case !ok:
				p.closed = true
				for _, a := range p.answers {
					a.came, a.why = true, "the permission channel was closed"
				}
			case m.Type == "user":
				p.take(m)
				p.heard = append(p.heard, m.Message.Content)
				p.told++
			case m.Type == "control_response":
				p.answered(m)
			case p.control(m):
				return aborted
			}
		}
	}
	return onward
}

// awaited takes one message that came while the turn ran, also before it was
// awaited. The end of the input is the end of waiting.
func (p *player) awaited() bool {
	if p.told > 0 {
		p.told--
		return true
	}
	return p.closed
}

func (p *player) answered(m input) {
	a := p.answers[m.Response.RequestID]
	if a == nil || a.came {
		return // unknown, or late
	}
	var r struct {
		Behavior string          `json:"behavior"`
		Input    json.RawMessage `json:"updatedInput"`
		Message  string          `json:"message"`
	}
	a.came, a.why = true, "the answer was malformed"
	if m.Response.Subtype != "success" || json.Unmarshal(m.Response.Response, &r) != nil {
		return
	}
	switch {
	case r.Behavior == "allow" && len(r.Input) > 0 && r.Input[0] == '{':
		a.allowed, a.input = true, r.Input
	case r.Behavior == "deny" && r.Message != "":
		a.why = r.Message
	}
}

// tools asks for all of steps, waits for every answer and runs what was allowed.
func (p *player) tools(steps []Step, begin func() error) flow {
	asked := make([]*answer, len(steps))
	ids := make([]string, len(steps))
	for i, s := range steps {
		p.calls++
		ids[i] = fmt.Sprintf("toolu_%s_%d", p.session[:8], p.calls)
		tool, in := s.call()
		p.assistant(map[string]any{"type": "tool_use", "id": ids[i], "name": tool, "input": in})
		request := newID()
		asked[i] = &answer{}
		p.answers[request] = asked[i]
		if p.closed {
			asked[i].came, asked[i].why = true, "the permission channel was closed"
			continue
		}
		p.put(map[string]any{"type": "control_request", "request_id": request, "request": map[string]any{
			"subtype": "can_use_tool", "tool_name": tool, "input": in, "tool_use_id": ids[i]}})
	}
	all := func() bool {
		for _, a := range asked {
			if !a.came {
				return false
			}
		}
		return true
	}
	if p.wait(nil, all) == aborted {
		for _, id := range ids {
			p.tool(id, "The user doesn't want to proceed with this tool use.", true)
		}
		return aborted
	}
	clear(p.answers)
	if err := begin(); err != nil {
		p.said = err.Error()
		return failed
	}
	end := onward
	for i, s := range steps {
		a := asked[i]
		if !a.allowed {
			p.tool(ids[i], a.why, true)
			p.said = "Not allowed: " + a.why
			switch s.OnDeny {
			case "stop":
				end = stopTurn
			case "fail":
				return failed
			}
			continue
		}
		text, bad, f := p.run(s, a.input)
		p.tool(ids[i], text, bad)
		if f == aborted {
			return aborted
		}
	}
	return end
}

func (s Step) call() (string, json.RawMessage) {
	var in []byte
	if s.Bash != "" {
		in, _ = json.Marshal(map[string]string{"command": s.Bash}) // strings always have a JSON form
		return "Bash", in
	}
	in, _ = json.Marshal(map[string]string{"file_path": s.Write, "content": s.Content})
	return "Write", in
}

func (p *player) tool(id, text string, bad bool) {
	p.put(map[string]any{"type": "user", "session_id": p.session, "parent_tool_use_id": nil, "message": map[string]any{"role": "user",
		"content": []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": bad}}}})
}

// run does what the host allowed: the input that came back, not the script's.
func (p *player) run(s Step, raw json.RawMessage) (text string, bad bool, f flow) {
	var in struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
		Content string `json:"content"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return "the input is malformed", true, onward
	}
	if s.Write != "" {
		if !filepath.IsLocal(in.Path) {
			return "the path leaves the workspace", true, onward
		}
		if err := os.MkdirAll(filepath.Dir(in.Path), 0o755); err != nil {
			return err.Error(), true, onward
		}
		if err := os.WriteFile(in.Path, []byte(in.Content), 0o644); err != nil {
			return err.Error(), true, onward
		}
		return "File written: " + in.Path, false, onward
	}
	var out bytes.Buffer
	cmd := exec.Command("sh", "-c", in.Command)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as the program does that it stands for
	if err := cmd.Start(); err != nil {
		return err.Error(), true, onward
	}
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = cmd.Wait()
	}()
	f = p.wait(ended, func() bool { return false })
	if f == aborted {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // gone already is as good
		<-ended
		return "The command was stopped while it ran.", true, aborted
	}
	text = out.String()
	if len(text) > outputCap {
		text = text[:outputCap] + "\n(cut)"
	}
	if err != nil {
		return fmt.Sprintf("%s\n%v", text, err), true, onward
	}
	return text, false, onward
}
