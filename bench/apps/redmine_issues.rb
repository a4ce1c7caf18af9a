# frozen_string_literal: true

# Run inside a prepared Redmine: fills its project with issues for the list that is measured. The same ones every time.
project = Project.find("brewhouse")
author = User.find_by!(login: "admin")
words = ["Kettle leaks at the valve", "Hop delivery is late", "Label of the new lager", "Yeast count too low", "Order malt for spring"]
Issue.where(project: project).destroy_all
60.times do |i|
  Issue.create!(project: project, author: author, tracker: project.trackers.to_a[i % project.trackers.size],
                status: IssueStatus.order(:position).first, priority: IssuePriority.order(:position).to_a[i % IssuePriority.count],
                subject: "#{words[i % words.size]} (#{i})", description: "What was seen, and when: batch #{1000 + i}.\n" * 4)
end
