// As much of `helm template` as the chart of this tree uses: render_chart FOLDER <CONTEXT.json prints every manifest.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func indent(width int, text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", width))
}

func add(numbers ...interface{}) (sum int64) {
	for _, number := range numbers {
		var value int64
		_, err := fmt.Sscan(fmt.Sprint(number), &value)
		check(err)
		sum += value
	}
	return sum
}

func main() {
	var context map[string]interface{}
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	check(decoder.Decode(&context))
	chart := template.New("chart").Option("missingkey=error")
	chart.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := chart.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"quote":    func(value interface{}) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"toString": func(value interface{}) string { return fmt.Sprint(value) },
		"replace":  func(old, new, text string) string { return strings.ReplaceAll(text, old, new) },
		"nindent":  func(width int, text string) string { return indent(width, "\n"+text) },
		"toYaml": func(value interface{}) string { // JSON is YAML
			text, err := json.Marshal(value)
			check(err)
			return string(text)
		},
		"add": add,
	})
	files, err := filepath.Glob(filepath.Join(os.Args[1], "templates", "*"))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		template.Must(chart.New(file).Parse(string(text)))
	}
	for _, file := range files {
		if filepath.Ext(file) == ".yaml" {
			fmt.Println("---")
			check(chart.ExecuteTemplate(os.Stdout, file, context))
		}
	}
}
