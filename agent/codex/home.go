package codex

import "time"

// prepare makes CODEX_HOME anew with the configuration file that comes on its
// input. Of what an earlier session left there only the sessions are kept: rules,
// skills, hooks and configuration would be read again. A link is not followed.
const prepare = `set -eu
umask 077
home=$CODEX_HOME
old=$home.old
if [ -d "$old/sessions" ] && [ ! -L "$old" ] && [ ! -L "$old/sessions" ] && [ ! -e "$home/sessions" ]; then
	rm -rf "$home"
	mv "$old" "$home"
fi
rm -rf "$old"
if [ -d "$home" ] && [ ! -L "$home" ]; then mv "$home" "$old"; else rm -rf "$home"; fi
mkdir "$home"
if [ -d "$old/sessions" ] && [ ! -L "$old/sessions" ]; then mv "$old/sessions" "$home/sessions"; fi
rm -rf "$old"
cat > "$home/config.toml"`

func now() time.Time { return time.Now().UTC() }
