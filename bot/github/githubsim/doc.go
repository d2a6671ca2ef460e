// Package githubsim is a GitHub that runs inside one process: REST, App
// authentication, signed webhooks with their delivery list, real git repositories
// behind smart HTTP, and plain pages for people. The demo runs on it and so do the
// tests, which is why what it refuses matters as much as what it serves: tokens
// expire, reach only their repositories, and do only what their permissions say.
//
// It owns everything under its directory and keeps the rest in memory. It must
// never be reachable from other machines (Start listens on loopback only), never
// run hooks, and never send anything but webhooks, to the one URL it was told.
//
//	server.go   life, request log, faults     app.go      the App, tokens, identity
//	model.go    users, repositories, issues   routes.go   which permission a call needs
//	rest_*.go   the REST API                  shape.go    its JSON
//	git.go      git, as a subprocess          sshsig.go   signatures of commits
//	smart.go    clone and push                refs.go     what a push means
//	hooks.go    webhook deliveries            act.go      what people do, as Go calls
//	page.go     the pages
package githubsim
