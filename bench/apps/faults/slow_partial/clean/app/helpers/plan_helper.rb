module PlanHelper
  def shelf_plan
    @shelf_plan ||= JSON.parse(Rails.root.join("storage/shelves.json").read)
  end
end
