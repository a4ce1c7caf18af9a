# How prices of a basket are reduced: a class for each rule, in app/models/rules.
module Rules
  COUNT = 400
end
