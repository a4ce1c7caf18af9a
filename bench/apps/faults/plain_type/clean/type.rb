# What browsers and servers know it as.
TYPE = "text/csv"
