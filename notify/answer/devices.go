package answer

import (
	"net/http"
	"slices"

	"nod"
)

type devicesView struct {
	frame
	Devices []deviceItem
}

type deviceItem struct {
	Session nod.Session
	Name    string // of its passkey
	This    bool
}

// devicesPage lists the sessions that hold: those of the reader's own passkey, and
// all of them for a passkey that is not limited to some repositories.
func (s *Server) devicesPage(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	open, err := s.devices(r, by)
	if err != nil {
		return err
	}
	keys, err := s.passkeys.Passkeys(r.Context())
	if err != nil {
		return err
	}
	v := devicesView{frame: s.frame("Devices", true)}
	v.Page = "devices"
	for _, d := range open {
		item := deviceItem{Session: d, This: d.TokenDigest == by.TokenDigest}
		for _, k := range keys {
			if k.ID == d.Passkey {
				item.Name = k.Name
			}
		}
		v.Devices = append(v.Devices, item)
	}
	return s.render(w, http.StatusOK, "devices", v)
}

func (s *Server) devices(r *http.Request, by nod.Session) ([]nod.Session, error) {
	open, err := s.sessions.Sessions(r.Context())
	return slices.DeleteFunc(open, func(d nod.Session) bool { return d.Passkey != by.Passkey && len(by.Repos) > 0 }), err
}

// signOutDevice ends one of the sessions that devicesPage lists. It needs no
// passkey: it takes away and gives nothing.
func (s *Server) signOutDevice(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	open, err := s.devices(r, by)
	if err != nil {
		return err
	}
	id := r.PostFormValue("session")
	if !slices.ContainsFunc(open, func(d nod.Session) bool { return d.TokenDigest == id }) {
		return nod.E(nod.NotFound, "there is no such session", nil)
	}
	if err := s.end(r.Context(), id); err != nil {
		return err
	}
	if id == by.TokenDigest {
		s.setCookie(w, "", 0)
	}
	http.Redirect(w, r, "/devices", http.StatusSeeOther)
	return nil
}
