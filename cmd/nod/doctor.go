package main

import "github.com/spf13/cobra"

func doctorCommand() *cobra.Command {
	root := &cobra.Command{Use: "doctor", Short: "Say what this machine can do"}
	root.AddCommand(doctorRuntimeCommand(), doctorGitHubCommand(), doctorNotifyCommand())
	return root
}
