# SPDX-License-Identifier: BSD-2-Clause
# Read by nginx's configure after it has written its Makefile. nginx has no
# flags for one module, and CFLAGS would reach nginx itself and every other
# module: each of our objects gets its own.

for durable_src in $DURABLE_SRCS; do
    durable_folder=`basename \`dirname $durable_src\``
    durable_object=$NGX_OBJS/addon/$durable_folder/`basename $durable_src .cpp`.o
    echo "$durable_object: CFLAGS += -std=c++17 -fvisibility=hidden $DURABLE_CXXFLAGS" \
        >> $NGX_MAKEFILE
done
