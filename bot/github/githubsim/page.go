package githubsim

import "net/http"

func (s *Server) webMux() http.Handler { return http.NotFoundHandler() }
