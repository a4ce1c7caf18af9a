# frozen_string_literal: true

# What Redmine is asked: every feed, and every response of its API, once with all that can be included. By name: method, path, body and its type.
module Questions
  ISSUE = "attachments,relations,journals,watchers,children,changesets,allowed_statuses"
  FEEDS = %w[
    /activity.atom /projects/brewhouse/activity.atom /projects.atom /issues.atom /projects/brewhouse/issues.atom /issues/changes.atom
    /issues/changes.atom?project_id=brewhouse /news.atom /projects/brewhouse/news.atom /time_entries.atom /projects/brewhouse/time_entries.atom
  ].freeze
  RESPONSES = %w[
    /issues.xml?include=attachments,relations /issues.xml?status_id=*&limit=2&offset=1 /projects.xml?include=trackers,issue_categories,enabled_modules,time_entry_activities,issue_custom_fields
    /projects/brewhouse.xml?include=trackers,issue_categories,enabled_modules,time_entry_activities,issue_custom_fields /projects/brewhouse/memberships.xml
    /projects/brewhouse/versions.xml /projects/brewhouse/issue_categories.xml /projects/brewhouse/files.xml /projects/brewhouse/news.xml /news.xml
    /projects/brewhouse/wiki/index.xml /projects/brewhouse/wiki/Wiki.xml?include=attachments /projects/brewhouse/wiki/M%C3%A4ische.xml /users.xml /users/current.xml?include=memberships,groups
    /my/account.xml /groups.xml /roles.xml /trackers.xml /issue_statuses.xml /custom_fields.xml /queries.xml /time_entries.xml /search.xml?q=kettle&attachments=1
    /enumerations/issue_priorities.xml /enumerations/time_entry_activities.xml /enumerations/document_categories.xml
  ].freeze

  # Those for which there has to be a record first; looked up, as their numbers depend on what the database had before.
  def self.of_records
    issues = Issue.where(author: [User.find_by!(login: "zoe"), User.find_by!(login: "admin")]).order(:id).last(6)
    [*issues.map { |issue| "/issues/#{issue.id}.xml?include=#{ISSUE}" }, "/issues/#{issues[0].id}.atom", "/issues/#{issues[0].id}/relations.xml",
     "/relations/#{IssueRelation.first.id}.xml", "/versions/#{Version.last.id}.xml", "/issue_categories/#{IssueCategory.last.id}.xml", "/memberships/#{Member.last.id}.xml",
     "/users/#{User.find_by!(login: "zoe").id}.xml?include=memberships,groups", "/groups/#{Group.givable.last.id}.xml?include=users,memberships", "/roles/#{Role.givable.first.id}.xml",
     "/news/#{News.last.id}.xml?include=comments,attachments", "/time_entries/#{TimeEntry.last.id}.xml", "/attachments/#{Attachment.find_by!(author: User.find_by!(login: "zoe")).id}.xml",
     "/projects/brewhouse/boards/#{Board.last.id}.atom"]
  end

  def self.all
    gets = (FEEDS + RESPONSES + of_records).to_h { |path| ["GET #{path}", ["GET", path]] }
    form = "application/xml"
    gets.merge(
      "an issue without a subject" => ["POST", "/issues.xml", "<issue><project_id>brewhouse</project_id><subject></subject><description>&lt; &amp;</description></issue>", form],
      "a new issue" => ["POST", "/issues.xml", "<issue><project_id>brewhouse</project_id><subject>From &lt;outside&gt; &amp; in</subject></issue>", form],
      "an upload" => ["POST", "/uploads.xml?filename=a.txt", "some bytes", "application/octet-stream"],
      "what is not there" => ["GET", "/issues/999999.xml"]
    )
  end
end
