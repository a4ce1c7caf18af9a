# Adds up /proc/PID/smaps, in KB: RSS, what is private and dirty, swap, PSS. It knows nothing of the server, so that it can check it.
#
#   awk -f smaps.awk /proc/PID/smaps
/^Rss:/ { rss += $2 }
/^Pss:/ { pss += $2 }
/^Private_Dirty:|^Private_Hugetlb:/ { dirty += $2 }
/^Swap:/ { swap += $2 }
END { printf "%d %d %d %d\n", rss, dirty, swap, pss }
