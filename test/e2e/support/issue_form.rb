# Redmine's form of an issue, as a browser would send it.
require_relative "visitor"

module IssueForm
  module_function

  # What the form would send of itself: the chosen options and the filled fields.
  def fields(html)
    form = html[%r{<form[^>]*id="(?:issue-form)".*?</form>}m] or raise "no issue form in #{html[0, 300]}"
    hidden = form.scan(/<input[^>]*>/).each_with_object({}) do |input, found|
      name, value, type = %w[name value type].map { |attribute| input[/\b#{attribute}="([^"]*)"/, 1] }
      found[name] = Visitor.unescape(value.to_s) if name&.match?(/\Aissue\[(?!watcher)/) && %w[hidden text date].include?(type)
    end
    form.scan(%r{<select[^>]*name="(issue\[[^"]*\])".*?>(.*?)</select>}m).each do |name, options|
      chosen = options[/<option[^>]*selected="selected"[^>]*>/] || options[/<option[^>]*>/]
      hidden[name] = chosen[/value="([^"]*)"/, 1].to_s if chosen
    end
    hidden
  end
end
