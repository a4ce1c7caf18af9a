# frozen_string_literal: true

# All stories as one page for a browser: a card each, made from the JSON of their results. A pure function: it reads and measures nothing. The page needs nothing from
# anywhere else, follows the reader's light or dark theme, and everything that comes from a result is escaped.
require "cgi/escape"
require_relative "chart"
require_relative "figures"

module Bench
  class StoryPage
    STYLE = <<~CSS
      :root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1d2430; --soft: #566072; --rule: #d9dde5; --bar: #9aa7bb; --own: #0b6bcb; --warn: #8a4b00; }
      @media (prefers-color-scheme: dark) {
        :root { --paper: #12161d; --card: #1b212b; --ink: #e6eaf1; --soft: #9ba7ba; --rule: #313a49; --bar: #66748a; --own: #58a6ff; --warn: #f0b266; }
      }
      * { box-sizing: border-box; }
      body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
      h1 { font-size: 1.6rem; margin: 1rem 0 .5rem; } h2 { font-size: 1.25rem; margin: 0 0 .5rem; } h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
      nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 1rem 0; } a { color: var(--own); }
      article { background: var(--card); border: 1px solid var(--rule); border-radius: .6rem; padding: 1rem; margin: 1.5rem 0; }
      .soft, footer { color: var(--soft); font-size: .875rem; } .caption { margin: .75rem 0 .25rem; font-size: .875rem; } footer { margin-top: 1rem; } .warn { color: var(--warn); font-weight: 600; }
      pre { background: var(--paper); border: 1px solid var(--rule); border-radius: .4rem; padding: .6rem .8rem; overflow-x: auto; font-size: .875rem; margin: .25rem 0 1rem; }
      code { font-family: ui-monospace, monospace; }
      .shown { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .5rem 1.5rem; margin: 1rem 0; }
      .shown b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; } .shown .after b, .shown .ratio b { color: var(--own); }
      .chart { display: block; overflow: visible; font-size: 14px; margin: .5rem 0; }
      .chart text { fill: var(--ink); } .chart .value { fill: var(--soft); } .bar { fill: var(--bar); } .bar.own { fill: var(--own); }
      .inside { fill: var(--ink); opacity: .55; } .range { stroke: var(--ink); stroke-width: 2; }
      .key { display: inline-block; width: 1.6em; height: .7em; border-radius: 3px; background: var(--bar); } .key.own { background: var(--own); }
      .wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; width: 100%; }
      th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--rule); } th:first-child, td:first-child { text-align: left; } td.wrong { text-align: left; color: var(--warn); }
      summary { cursor: pointer; color: var(--soft); font-size: .875rem; }
    CSS

    # RESULTS: what story-NAME-TIME.json files hold, parsed; of a story that is there several times the newest counts. ORDER: names of all stories.
    def initialize(results, order = [])
      newest = results.group_by { |result| result.fetch("story") }.transform_values { |some| some.max_by { |one| one.dig("machine", "date").to_s } }
      @results = newest.values.sort_by { |result| [order.index(result["story"]) || order.size, result["story"]] }
    end

    def html
      <<~HTML
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>Paceline: the stories, measured</title>
        <style>
        #{STYLE}</style>
        </head>
        <body>
        <h1>The stories, measured</h1>
        <p>Each of these is an experiment that somebody published about a slow Ruby application. <code>bin/bench story NAME</code> repeats it: all ways take turns in the same run, figures are medians,
        and the figures of one machine say little about another.</p>
        <p class="soft">How to read the charts: <span class="key own"></span> is Paceline, <span class="key"></span> everything else; the thin line goes from the least to the most of the rounds.
        Above each chart stands what it shows, and whether a longer or a shorter bar is better.</p>
        <nav>#{@results.map { |result| %(<a href="##{anchor(result)}">#{escape(result["title"])}</a>) }.join("\n")}</nav>
        #{@results.empty? ? "<p>No story has been measured yet.</p>" : @results.map { |result| card(result) }.join}
        </body>
        </html>
      HTML
    end

    private

    def card(result)
      <<~HTML
        <article id="#{anchor(result)}">
        <h2>#{escape(result["title"])}</h2>
        <p>#{escape(result["slow"])}</p>
        <p class="soft">#{escape(result["published"])}</p>
        #{warning(result)}#{shown(result["shown"])}<p class="soft">The line that was changed, in <code>#{escape(result.dig("change", "where"))}</code>:</p>
        <pre><code>#{escape(result.dig("change", "text"))}</code></pre>
        #{result.fetch("parts").map { |part| section(part) }.join}#{not_run(result["not_run"] || {})}#{footer(result)}
        </article>
      HTML
    end

    # What makes it less than a result.
    def warning(result)
      rounds = result.dig("options", "rounds").to_i
      few = result.dig("options", "quick") ? "A quick run" : "#{rounds} round#{"s" unless rounds == 1}"
      lines = [("#{few}: a first impression, not a result." if result.dig("options", "quick") || rounds < 5), StoryFigures.busy(result.fetch("machine"))].compact
      lines.map { |line| %(<p class="warn">#{escape(line)}</p>\n) }.join
    end

    def shown(shown)
      return "" unless shown

      by = StoryFigures.compared_by("main" => shown.fetch("measure"))
      ratio = shown["ratio"]&.positive? ? verdict(shown, (", in #{StoryFigures::MEASURES.fetch(by).title}" unless by == shown["measure"])) : ""
      %(<div class="shown">#{value(shown, "before")}#{value(shown, "after")}#{ratio}</div>\n<p class="soft">#{escape(shown["part"])}</p>\n)
    end

    def verdict(shown, of)
      words, number, range = StoryFigures.verdict(shown["ratio"], shown["spread"])
      %(<div class="ratio"><span class="soft">#{escape([words, of].join.delete_prefix(", "))}</span><b>#{escape(number)}</b>#{between(range)}</div>)
    end

    def value(shown, which)
      measure = shown.fetch("measure")
      %(<div class="#{which}"><span class="soft">#{which}: #{escape(shown.dig(which, "name"))}</span><b>#{escape(StoryFigures.text(measure, shown.dig(which, "value")))}</b>) +
        %(<span class="soft">#{escape(StoryFigures::MEASURES.fetch(measure).title)}</span></div>)
    end

    def between(range)
      range && range.uniq.size > 1 ? %(<span class="soft">#{escape("#{StoryFigures.times(range[0], nil)} to #{StoryFigures.times(range[1], nil)} in the rounds")}</span>) : ""
    end

    def section(part)
      columns = StoryFigures.columns(part)
      ratios = StoryFigures.ratios?(part)
      head = ["", *columns.map { |name| StoryFigures::MEASURES.fetch(name).title }, *("times better" if ratios)].map { |text| "<th>#{escape(text)}</th>" }.join
      rows = part.fetch("rows").map { |row| "<tr><td>#{escape(row["name"])}</td>#{cells(row, columns, ratios)}</tr>" }.join("\n")
      note = part["note"] ? %(<p class="soft">#{escape(part["note"])}</p>\n) : ""
      %(<section>\n<h3>#{escape(part["title"])}</h3>\n#{note}<p class="caption">#{escape(StoryFigures::MEASURES.fetch(part.fetch("main")).caption)}</p>\n#{StoryChart.svg(part)}\n) +
        %(<details><summary>All figures</summary><div class="wide"><table>\n<tr>#{head}</tr>\n#{rows}\n</table></div>#{ratios ? compared(part) : ""}</details>\n</section>\n)
    end

    # What its last column is.
    def compared(part)
      %(<p class="soft">Times better: than #{escape(part["baseline"])}, in #{escape(StoryFigures::MEASURES.fetch(StoryFigures.compared_by(part)).title)}; the median of the rounds' ratios, with the least and the most.</p>)
    end

    def cells(row, columns, ratios)
      return %(<td class="wrong" colspan="#{columns.size + (ratios ? 1 : 0)}">#{escape("no figure: #{row["wrong"]}")}</td>) if row["wrong"]

      [*columns.map { |name| StoryFigures.text(name, row.fetch("figures")[name]) }, *(StoryFigures.times(row["ratio"], row["spread"]) if ratios)].map { |text| "<td>#{escape(text)}</td>" }.join
    end

    def not_run(absent)
      return "" if absent.empty?

      "<h3>Not run</h3>\n<ul>#{absent.map { |what, why| "<li>#{escape(what)}: #{escape(why)}</li>" }.join("\n")}</ul>\n"
    end

    def footer(result)
      machine = result.fetch("machine")
      text = [machine["date"], "#{machine["processors"]} x #{machine["processor"]}", "#{machine["memory_mb"]} MB", machine["ruby"], "Linux #{machine["kernel"]}", result.dig("versions", "paceline")].compact
      %(<footer>#{escape(text.join(" · "))}<br><code>#{escape(result["command"])}</code></footer>)
    end

    def anchor(result) = "story-#{escape(result["story"])}"
    def escape(text) = CGI.escapeHTML(text.to_s)
  end
end
