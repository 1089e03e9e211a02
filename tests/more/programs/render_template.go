// Renders deploy/templates/go/berth.ini.tmpl as any Go program would, and with env() as Nomad does:
// render_template TEMPLATE <VALUES.json
package main

import (
	"encoding/json"
	"log"
	"os"
	"strings"
	"text/template"
)

func main() {
	var values map[string]interface{}
	if err := json.NewDecoder(os.Stdin).Decode(&values); err != nil {
		log.Fatal(err)
	}
	functions := template.FuncMap{
		"line": strings.NewReplacer("\r", " ", "\n", " ").Replace,
		"text": strings.NewReplacer("$", "$$", "\r", " ", "\n", " ").Replace,
		"env":  os.Getenv,
	}
	source, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	parsed := template.Must(template.New("berth.ini").Funcs(functions).Parse(string(source)))
	if err := parsed.Execute(os.Stdout, values); err != nil {
		log.Fatal(err)
	}
}
