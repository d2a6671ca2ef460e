package claude

// prepare takes out of the home what an earlier session could have left to run: the
// program starts its commands from what the shell's own files set up, and nobody is
// asked about those. What else it reads there is switched off by its arguments.
const prepare = `cd "$HOME" && rm -rf .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .claude/shell-snapshots`
