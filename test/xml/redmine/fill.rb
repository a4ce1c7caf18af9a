# frozen_string_literal: true

# Run inside a Redmine (redmine/answers.rb does) whose database is a copy: gives its project something of everything that feeds and the API
# tell, in characters that XML minds.
class Fill
  WORDS = ["Kettle & valve <leaks>", "\"Hops\" for 5' 6''", "Größe – naïve Ærø ☕ 𝔘", "tab\there", "quote ' and \" mixed & <b>bold</b>", "Пиво и 麦酒"].freeze
  # What a form lets through and XML does not, or reads otherwise.
  ODD = "bell \a, C1 \u0085 and \u0092, ]]> and &amp;, \u{FFFE}, line\r\nends\rhere\n"

  def initialize(directory)
    Attachment.storage_path = File.join(directory, "files")
    FileUtils.mkdir_p(Attachment.storage_path)
    @admin = User.find_by!(login: "admin")
    @project = Project.find("brewhouse")
    User.current = @admin
  end

  def run
    people
    project
    6.times { |i| issue(i) }
    relate
    times
    pages
  end

  private

  def people
    @zoe = User.new(firstname: "Zoë & Co", lastname: "O'Brien <z>", mail: "zoe@redmine.test", language: "en", status: 1)
    @zoe.login = "zoe"
    @zoe.password = @zoe.password_confirmation = "pull-together-8"
    @zoe.save!
    # Made when they are first asked for, at random.
    [@admin, @zoe].each do |user|
      user.atom_key
      user.api_key
    end
    @group = Group.create!(lastname: "Cellar & <Brewers>")
    @group.users << @zoe
    Member.create!(project: @project, principal: @zoe, roles: Role.givable.first(2))
    Member.create!(project: @project, principal: @group, roles: [Role.givable.last])
  end

  def project
    @project.update!(description: "All about *beer* & <wort>. #{ODD}", homepage: "http://redmine.test/?a=1&b=2",
                     enabled_module_names: %w[issue_tracking time_tracking news documents files wiki boards calendar gantt])
    child = Project.new(name: "Hops & <cones>", identifier: "hops", description: "Below", is_public: true, trackers: Tracker.all)
    child.save!
    child.set_parent!(@project)
    @version = Version.create!(project: @project, name: "Märzen & <1.0>", description: "In spring", effective_date: Date.new(2026, 3, 1))
    # Past the form: names are attributes.
    @version.update_column(:name, "Märzen \"& <1.0>\"\r\nin 'spring'")
    @category = IssueCategory.create!(project: @project, name: "Cellar & <stairs>", assigned_to: @zoe)
    fields
    @project.update!(default_version: @version)
  end

  def fields
    @fields = [IssueCustomField.create!(name: "Strength & <°P>", field_format: "string", is_for_all: true, trackers: Tracker.all, default_value: "12 & <more>"),
               IssueCustomField.create!(name: "Malts", field_format: "list", possible_values: ["Pale & <dry>", "Smoked", "Röst"], multiple: true, is_for_all: true, trackers: Tracker.all)]
    ProjectCustomField.create!(name: "Town", field_format: "string")
    VersionCustomField.create!(name: "Barrels", field_format: "int")
    UserCustomField.create!(name: "Shift", field_format: "bool")
    @project.reload
  end

  def issue(number)
    issue = Issue.new(project: @project, author: number.odd? ? @zoe : @admin, tracker: @project.trackers.to_a[number % 3], subject: "#{WORDS[number]} #{number}",
                      description: "#{ODD}\n\n* one\n* two & <three>\n\n<pre>a < b && c</pre>", status: IssueStatus.sorted.first, priority: IssuePriority.all[number % 3],
                      category: @category, fixed_version: @version, assigned_to: @zoe, estimated_hours: 1.25 * number, start_date: Date.new(2026, 1, 1 + number),
                      due_date: (Date.new(2026, 2, 1) if number.even?), done_ratio: 10 * number)
    issue.custom_field_values = { @fields[0].id.to_s => "#{WORDS[number]}°", @fields[1].id.to_s => ["Pale & <dry>", "Röst"] }
    issue.save!
    issue = Issue.find(issue.id)
    issue.init_journal(@zoe, "Noted: #{WORDS[number]}\r\n\r\n> quoted & <b>bold</b>")
    issue.subject = "#{issue.subject} (#{WORDS[-number]})"
    issue.status = IssueStatus.sorted.last if number == 5
    issue.save!
    # Who writes an issue may watch it already.
    issue = Issue.find(issue.id)
    issue.add_watcher(@zoe) unless issue.watched_by?(@zoe)
    attach(issue, "wort ü & #{number}.txt")
    (@issues ||= []) << issue
  end

  def attach(container, name)
    Attachment.create!(container: container, file: "kept #{name}", filename: name, author: @zoe, description: "Of \"#{name}\" & <so>", content_type: "text/plain")
  end

  def relate
    IssueRelation.create!(issue_from: @issues[0], issue_to: @issues[1], relation_type: "precedes", delay: 2)
    IssueRelation.create!(issue_from: @issues[2], issue_to: @issues[3], relation_type: "relates")
    Issue.find(@issues[4].id).update!(parent_issue_id: @issues[0].id)
    IssueQuery.create!(name: "Open & <mine>", user: @zoe, visibility: Query::VISIBILITY_PUBLIC, filters: { "status_id" => { operator: "o", values: [""] } })
  end

  def times
    activity = TimeEntryActivity.first
    @issues.each_with_index do |issue, i|
      TimeEntry.create!(project: @project, issue: issue, user: @zoe, author: @zoe, hours: 0.25 + i, comments: "#{WORDS[i]} done", spent_on: Date.new(2026, 3, 1 + i), activity: activity)
    end
  end

  def pages
    news = News.create!(project: @project, author: @zoe, title: "New & <improved>", summary: WORDS[2], description: "#{ODD} *read* it")
    Comment.create!(commented: news, author: @zoe, comments: WORDS[4])
    attach(news, "label.txt")
    wiki = @project.wiki || Wiki.create!(project: @project, start_page: "Wiki")
    %w[Wiki Mäische].each do |title|
      page = WikiPage.new(wiki: wiki, title: title)
      page.content = WikiContent.new(page: page, author: @zoe, text: "h1. #{title} & <more>\n\n#{ODD}", comments: WORDS[4])
      page.save!
    end
    WikiPage.find_by!(title: "Mäische").update!(parent: wiki.find_page("Wiki"))
    attach(@project, "brochure & <co>.txt")
    attach(@version, "release.txt")
    board = Board.create!(project: @project, name: "Tap room", description: "Talk & <listen>")
    topic = Message.create!(board: board, author: @zoe, subject: WORDS[0], content: ODD)
    Message.create!(board: board, parent: topic, author: @admin, subject: "RE: #{WORDS[0]}", content: WORDS[4])
    Document.create!(project: @project, category: DocumentCategory.first, title: "Licence & <more>", description: WORDS[5])
  end
end
